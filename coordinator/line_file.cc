#include "coordinator/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/status.h"

namespace skerry {
namespace {

// Where the last whole line ends.
int64_t EndOfLines(int descriptor) {
  std::array<char, 4096> piece;
  int64_t end = lseek(descriptor, 0, SEEK_END);
  while (end > 0) {
    const int64_t begin =
        end > static_cast<int64_t>(piece.size()) ? end - static_cast<int64_t>(piece.size()) : 0;
    const ssize_t got = pread(descriptor, piece.data(), static_cast<size_t>(end - begin), begin);
    for (ssize_t i = got; i > 0; --i) {
      if (piece[static_cast<size_t>(i) - 1] == '\n') return begin + i;
    }
    end = begin;
  }
  return 0;
}

}  // namespace

absl::StatusOr<LineFile> LineFile::Open(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) return Unavailable("%s: %s", path, std::strerror(errno));
  const int64_t size = EndOfLines(descriptor);
  if (lseek(descriptor, 0, SEEK_END) > size && ftruncate(descriptor, size) != 0) {
    const int error = errno;
    close(descriptor);
    return Unavailable("%s: %s", path, std::strerror(error));
  }
  return LineFile(descriptor, size);
}

LineFile::LineFile(LineFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      waiting_(std::move(other.waiting_)),
      waiting_bytes_(other.waiting_bytes_),
      dropped_(other.dropped_) {}

LineFile::~LineFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

// All of it or nothing.
bool LineFile::Write(const std::string& text) {
  const ssize_t wrote = write(descriptor_, text.data(), text.size());
  if (wrote == static_cast<ssize_t>(text.size())) {
    size_ += wrote;
    return true;
  }
  // What is cut off here again is at worst cut off when the file is opened next.
  if (wrote > 0 && ftruncate(descriptor_, size_) != 0) size_ += wrote;
  return false;
}

void LineFile::Append(const std::string& line) {
  waiting_.push_back(line + "\n");
  waiting_bytes_ += waiting_.back().size();
  while (!waiting_.empty() && Write(waiting_.front())) {
    waiting_bytes_ -= waiting_.front().size();
    waiting_.pop_front();
  }
  while (waiting_bytes_ > kWaitingBytesMax) {
    waiting_bytes_ -= waiting_.front().size();
    waiting_.pop_front();
    ++dropped_;
  }
}

}  // namespace skerry
