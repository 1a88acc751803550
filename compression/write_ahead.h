// Memory of values that are decoded next, asked for in time (ternary.cc).
#pragma once

#include <cstddef>

namespace skerry {

// Asks for the memory of the next tile's values bit by bit, while this one's are decoded and while
// they are written.
class WriteAhead {
 public:
  static constexpr size_t kLine = 64;
  static constexpr size_t kParts = 6;  // two pairs of blocks taken, four blocks written

  WriteAhead(const void* at, size_t bytes)
      : at_(static_cast<const char*>(at)), lines_(bytes / kLine / kParts / 8 * 8) {}

  // A part for a loop to ask for.
  const char* Part() {
    at_ += lines_ * kLine;
    return at_ - lines_ * kLine;
  }
  size_t lines() const { return lines_; }
  void Fetch() {
    const char* part = Part();
    for (size_t line = 0; line < lines_; ++line) __builtin_prefetch(part + line * kLine, 1);
  }

 private:
  const char* at_;
  size_t lines_;
};

}  // namespace skerry
