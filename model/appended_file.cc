#include "model/appended_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "model/file_io.h"

namespace skerry {
namespace {

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
  if (file.value < 0) return WriteError(path, "write", errno);
  while (!bytes.empty()) {
    const ssize_t written = write(file.value, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return WriteError(path, "write", errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  if (durable == Durable::kYes && fdatasync(file.value) != 0)
    return WriteError(path, "write", errno);
  return absl::OkStatus();
}

}  // namespace skerry
