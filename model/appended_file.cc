#include "model/appended_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "common/status.h"

namespace skerry {
namespace {

absl::Status Refused(const std::string& path, int error) {
  const std::string why = std::generic_category().message(error);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return ResourceExhausted("%s: cannot write: %s; make room and try again", path, why);
  }
  return Unavailable("%s: cannot write: %s", path, why);
}

struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) close(value);
  }
};

}  // namespace

absl::Status AppendToFile(const std::string& path, std::span<const uint8_t> bytes,
                          Durable durable) {
  const Descriptor file{open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)};
  if (file.value < 0) return Refused(path, errno);
  while (!bytes.empty()) {
    const ssize_t written = write(file.value, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Refused(path, errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  if (durable == Durable::kYes && fdatasync(file.value) != 0) return Refused(path, errno);
  return absl::OkStatus();
}

}  // namespace skerry
