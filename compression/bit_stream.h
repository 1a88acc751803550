// Bits in little-endian order, the first one in bit 0 of the first byte.
//
// Neither class looks at bounds: the caller provides kBitSlack bytes past what is written or read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace skerry {

inline constexpr size_t kBitSlack = 8;

// Copyable: a copy is a mark to go back to.
class BitWriter {
 public:
  explicit BitWriter(uint8_t* out) : start_(out), out_(out) {}

  // The low `count` ≤ 56 bits of `bits`; the others are zero.
  void Put(uint64_t bits, size_t count) {
    pending_ |= bits << filled_;
    filled_ += count;
    std::memcpy(out_, &pending_, 8);
    out_ += filled_ / 8;
    pending_ >>= filled_ / 8 * 8;
    filled_ %= 8;
  }

  size_t bits() const { return static_cast<size_t>(out_ - start_) * 8 + filled_; }

  // Length in bytes; the last one is filled with zeros, and so are some after it.
  size_t Finish() {
    std::memcpy(out_, &pending_, 8);
    return (bits() + 7) / 8;
  }

 private:
  uint8_t* start_;
  uint8_t* out_;
  uint64_t pending_ = 0;
  size_t filled_ = 0;  // < 8 between calls
};

class BitReader {
 public:
  BitReader() = default;
  explicit BitReader(const uint8_t* in) : in_(in) {}

  // The next 57 bits at least.
  uint64_t Peek() const {
    uint64_t bits;
    std::memcpy(&bits, in_ + at_ / 8, 8);
    return bits >> (at_ % 8);
  }
  void Skip(size_t count) { at_ += count; }

 private:
  const uint8_t* in_ = nullptr;
  size_t at_ = 0;
};

// The bits from the last to the first.
inline uint64_t ReversedBits(uint64_t bits) {
  constexpr uint64_t kOdd = 0x5555555555555555, kPairs = 0x3333333333333333,
                     kHalves = 0x0f0f0f0f0f0f0f0f;
  bits = (bits >> 1 & kOdd) | (bits & kOdd) << 1;
  bits = (bits >> 2 & kPairs) | (bits & kPairs) << 2;
  bits = (bits >> 4 & kHalves) | (bits & kHalves) << 4;
  return __builtin_bswap64(bits);
}

}  // namespace skerry
