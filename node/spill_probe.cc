#include "node/spill_probe.h"

#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>

#include "common/status.h"
#include "pipeline/plan/memory_model.h"

namespace skerry {

absl::StatusOr<SpillProfile> ProbeSpill(const std::string& directory, double gib) {
  SKERRY_RETURN_IF_ERROR(CheckOnDisk(directory));
  struct statvfs disk {};
  if (statvfs(directory.c_str(), &disk) != 0) {
    return Unavailable("%s: %s [SK-spill]", directory, std::strerror(errno));
  }
  const auto free = static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
  SpillProfile profile;
  profile.directory = directory;
  profile.bytes = gib > 0 ? static_cast<int64_t>(gib * (int64_t{1} << 30)) : free / 2;
  if (profile.bytes > free) {
    return ResourceExhausted("%s has %s free, --spill-space offers %s [SK-spill]", directory,
                             BytesText(free), BytesText(profile.bytes));
  }
  SKERRY_ASSIGN_OR_RETURN(profile.rates, MeasureStashFile(directory));
  return profile;
}

std::string SpillText(const SpillProfile& profile) {
  return absl::StrFormat("%s in %s, writes %.2f GB/s, reads %.2f GB/s", BytesText(profile.bytes),
                         profile.directory, profile.rates.write_bytes_per_s / 1e9,
                         profile.rates.read_bytes_per_s / 1e9);
}

}  // namespace skerry
