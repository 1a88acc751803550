// What the doctor finds in the machine itself.
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/status.h"
#include "kernels/cpu/thread_limit.h"
#include "node/device_choice.h"
#include "node/device_probe.h"
#include "node/doctor_program.h"
#include "node/home_lock_program.h"
#include "node/limits_program.h"
#include "node/network_cards.h"
#include "node/spill_probe.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kFilesWanted = 1024;
constexpr double kGiB = 1 << 30;
constexpr double kDiskGiBWanted = 2;
constexpr double kMemoryGiBWanted = 1;
constexpr std::time_t kBuiltAbout = 1'767'225'600;  // 2026-01-01: no clock of a user is before

// The nearest directory above that is there.
fs::path Existing(fs::path there) {
  std::error_code none;
  while (!there.empty() && !fs::exists(there, none)) there = there.parent_path();
  return there.empty() ? fs::path(".") : there;
}

Finding Clock() {
  Finding finding{"clock", Health::kGood, "", "", ""};
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  finding.found = text;
  timex state{};
  const bool synchronised = adjtimex(&state) != TIME_ERROR;
  if (now < kBuiltAbout) {
    finding.health = Health::kBad;
    finding.cause = "the clock is years behind; tickets seem not to expire, or to be of the future";
    finding.remedy = "set it: timedatectl set-ntp true";
  } else if (!synchronised) {
    finding.health = Health::kPoor;
    finding.found += ", not synchronised";
    finding.cause =
        "the system does not say that a time service keeps it right; an hour off, "
        "tickets seem expired and hours of limits.toml are others";
    finding.remedy = "timedatectl set-ntp true (in a container: on the host)";
  }
  return finding;
}

Finding Files() {
  Finding finding{"open files", Health::kGood, "", "", ""};
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  finding.found = absl::StrFormat("%d at a time", limit.rlim_cur);
  if (static_cast<int64_t>(limit.rlim_cur) >= kFilesWanted) return finding;
  finding.health = Health::kPoor;
  finding.cause =
      absl::StrFormat("%d are wanted: every peer takes several connections", kFilesWanted);
  finding.remedy = "ulimit -n 4096, or LimitNOFILE=4096 in the service";
  return finding;
}

Finding Home(const std::string& home) {
  Finding finding{"home", Health::kGood, home, "", ""};
  if (access(Existing(home).c_str(), W_OK | X_OK) == 0) return finding;
  finding.health = Health::kBad;
  finding.cause = "this user may not write there: " + std::string(std::strerror(errno));
  finding.remedy = "chown it, or join with --home DIR";
  return finding;
}

Finding Key(const std::string& home) {
  Finding finding{"key", Health::kGood, "none yet: the first join makes one", "", ""};
  const fs::path file = fs::path(home) / "node.key";
  struct stat facts {};
  if (stat(file.c_str(), &facts) != 0) return finding;
  finding.found = absl::StrFormat("%s, mode %04o", file.string(), facts.st_mode & 07777);
  const bool foreign = facts.st_uid != geteuid();
  if ((facts.st_mode & 077) == 0 && !foreign) return finding;
  finding.health = Health::kBad;
  finding.cause =
      foreign ? "it belongs to another user" : "others may read it: whoever has it is this node";
  finding.remedy =
      foreign ? "run as its user, or join with --home DIR" : "chmod 600 " + file.string();
  return finding;
}

Finding Alone(const std::string& home) {
  Finding finding{"alone", Health::kGood, "no other node lives in this home", "", ""};
  const absl::Status alone = HomeLock::Look(home);
  if (!absl::IsFailedPrecondition(alone)) return finding;
  finding.health = Health::kPoor;
  finding.found = ErrorText(alone);
  finding.cause = "a second join in this home would end at once";
  finding.remedy = "skerry-node status shows what it does; --home DIR for another";
  return finding;
}

Finding Limits(const std::string& home) {
  const auto limits = LoadLimits((fs::path(home) / kLimitsFile).string());
  if (limits.ok()) return {"limits", Health::kGood, Describe(*limits), "", ""};
  return {"limits", Health::kBad, ErrorText(limits.status()), "limits.toml cannot be read as it is",
          "correct that line, or remove the file"};
}

Finding Disk(const std::string& home) {
  Finding finding{"disk", Health::kUnknown, "", "", ""};
  struct statvfs facts {};
  if (statvfs(Existing(home).c_str(), &facts) != 0) return finding;
  const double free =
      static_cast<double>(facts.f_bavail) * static_cast<double>(facts.f_frsize) / kGiB;
  finding.health = free >= kDiskGiBWanted ? Health::kGood : Health::kPoor;
  finding.found = absl::StrFormat("%.1f GiB free for training data", free);
  if (finding.health == Health::kGood) return finding;
  finding.cause = absl::StrFormat(
      "%.0f GiB are wanted: nodes of the first stage keep the data there", kDiskGiBWanted);
  finding.remedy = "make room, or join with --home on another disk";
  return finding;
}

Finding Memory() {
  std::ifstream file("/proc/meminfo");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const double free = static_cast<double>(AvailableMemory(text)) / kGiB;
  Finding finding{"memory", Health::kGood, absl::StrFormat("%.1f GiB free", free), "", ""};
  if (free >= kMemoryGiBWanted) return finding;
  finding.health = Health::kPoor;
  finding.cause = "the planner gives a node a stage that fits what is free, with a tenth to spare";
  finding.remedy = "end other programs; join --memory GIB bounds what is offered";
  return finding;
}

Finding Processor(int threads) {
  const int usable = UsableThreads();
  const auto profile = ProbeDevice({.threads = BoundedThreads(threads), .why = ""});
  if (!profile.ok()) {
    return {"processor", Health::kBad, ErrorText(profile.status()), "training cannot start on it",
            "tell the developers what processor it is"};
  }
  return {"processor", Health::kGood,
          absl::StrFormat("%s: %s; %d threads usable", profile->name, RatesText(*profile), usable),
          "", ""};
}

Finding Gpu() {
  std::string found;
  std::vector<DeviceChoice> gpus;
  for (int index = 0;; ++index) {
    const DeviceChoice gpu = {.gpu = true, .index = index, .why = ""};
    const auto profile = ProbeDevice(gpu);
    if (profile.ok()) {
      found += (found.empty() ? "" : "; ") + profile->name + ": " + RatesText(*profile);
      gpus.push_back(gpu);
      continue;
    }
    for (const std::string& way : WaysBetween(gpus)) found += "; " + way;
    if (index > 0) return {"GPU", Health::kGood, found, "", ""};
    found = "none in use: " + ErrorText(profile.status());
    break;
  }
  // A card without a driver that works is a pity; no card is none.
  if (!fs::exists("/proc/driver/nvidia/version") && !fs::exists("/dev/nvidia0"))
    return {"GPU", Health::kGood, found, "", ""};
  return {"GPU", Health::kPoor, found, "there is an NVIDIA driver, and the card cannot be used",
          "nvidia-smi says more; this user must be allowed /dev/nvidia*, and the CUDA plug-in be "
          "beside the program"};
}

Finding Cards() {
  std::string found;
  for (const NetworkCard& card : NetworkCards()) {
    found += (found.empty() ? "" : "; ") + Describe(card);
  }
  return {"cards", Health::kGood, found.empty() ? "no network card of hardware" : found, "", ""};
}

// What `join --devices` of that list would announce.
Finding Devices(const DoctorOptions& options) {
  Finding finding{"devices", Health::kBad, "", "", ""};
  const auto devices =
      ChooseDevices(options.devices, DeviceWish::kAuto, BoundedThreads(options.threads));
  const auto team =
      devices.ok() ? ProbeDevices(*devices) : absl::StatusOr<TeamProfile>(devices.status());
  if (!team.ok()) {
    finding.found = ErrorText(team.status());
    finding.cause = "join --devices " + options.devices + " would end with this";
    finding.remedy = "--devices all takes what works; the findings about the GPU say what does not";
    return finding;
  }
  finding.health = Health::kGood;
  finding.found = absl::StrFormat("%s: together %s", team->whole.name, RatesText(team->whole));
  return finding;
}

// What `join --spill` of that directory would announce.
Finding Spill(const std::string& directory) {
  Finding finding{"spill", Health::kBad, "", "", ""};
  const auto disk = ProbeSpill(directory, 0);
  if (!disk.ok()) {
    finding.found = ErrorText(disk.status());
    finding.cause = "join --spill " + directory + " would end with this";
    finding.remedy = "another directory, on a disk with room, or none";
    return finding;
  }
  finding.health = Health::kGood;
  finding.found = "activations: " + SpillText(*disk);
  return finding;
}

Finding Driver() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  if (!std::getline(file, line))
    return {"driver", Health::kGood, "no NVIDIA driver; none is needed", "", ""};
  return {"driver", Health::kGood, line, "", ""};
}

}  // namespace

std::vector<Finding> CheckMachine(const DoctorOptions& options) {
  std::vector<Finding> findings = {Clock(),
                                   Files(),
                                   Home(options.home),
                                   Key(options.home),
                                   Alone(options.home),
                                   Limits(options.home),
                                   Disk(options.home),
                                   Memory(),
                                   Processor(options.threads),
                                   Gpu(),
                                   Driver(),
                                   Cards()};
  if (!options.devices.empty()) findings.push_back(Devices(options));
  if (!options.spill.empty()) findings.push_back(Spill(options.spill));
  return findings;
}

}  // namespace skerry
