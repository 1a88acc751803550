// A file that grows by whole lines: a reader never finds half of one that is followed by another,
// whatever the writer died of.
//
// What a full disk does not take waits in memory, in order, and is written before the next line
// that can be. One thread owns it; one process writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "absl/status/statusor.h"

namespace skerry {

class LineFile {
 public:
  static constexpr size_t kWaitingBytesMax = 4 << 20;  // beyond it the oldest lines are dropped

  // Cuts what a dead writer left of a line. Unavailable if the file cannot be opened.
  static absl::StatusOr<LineFile> Open(const std::string& path);
  LineFile(LineFile&& other) noexcept;
  LineFile& operator=(LineFile&&) = delete;
  ~LineFile();

  // `line` without its end. Never fails: see waiting().
  void Append(const std::string& line);

  int64_t size() const { return size_; }              // bytes of whole lines in the file
  size_t waiting() const { return waiting_.size(); }  // lines
  int64_t dropped() const { return dropped_; }

 private:
  LineFile(int descriptor, int64_t size) : descriptor_(descriptor), size_(size) {}
  bool Write(const std::string& text);

  int descriptor_ = -1;
  int64_t size_ = 0;  // of the whole lines
  std::deque<std::string> waiting_;
  size_t waiting_bytes_ = 0;
  int64_t dropped_ = 0;
};

}  // namespace skerry
