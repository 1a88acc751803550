// Memory of values that are decoded next, asked for in time (ternary.cc).
#pragma once

#include <cstddef>

namespace skerry {

// Asks for the memory of the next tiles' values bit by bit, while those of these are decoded and
// while they are written: half of it each.
class WriteAhead {
 public:
  static constexpr size_t kLine = 64;

  // `bytes` at `at`, as long as `blocks` blocks are decoded and written.
  WriteAhead(const void* at, size_t bytes, size_t blocks)
      : at_(static_cast<const char*>(at)), lines_(bytes / kLine / (2 * blocks) / 4 * 4) {}

  // What a loop over `blocks` blocks asks for: lines() lines each.
  const char* Part(size_t blocks) {
    at_ += blocks * lines_ * kLine;
    return at_ - blocks * lines_ * kLine;
  }
  size_t lines() const { return lines_; }
  [[gnu::always_inline]] void Fetch() {
    const char* part = Part(1);
    for (size_t line = 0; line < lines_; ++line) __builtin_prefetch(part + line * kLine, 1);
  }

 private:
  const char* at_;
  size_t lines_;  // a multiple of 4
};

}  // namespace skerry
