#include "compression/mask_code.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "common/check.h"

namespace skerry {
namespace {

constexpr size_t kSymbols = 256;
constexpr std::array<uint64_t, kMaskLevels> kSharesOf64 = {2,  4,  6,  8,  10, 12, 14, 17,
                                                           20, 24, 28, 32, 40, 48, 56, 61};
// From so many ones of 256 on the next share's code is the shorter one in expectation.
constexpr std::array<size_t, kMaskLevels - 1> kOnesOf256 = {13, 22,  29,  39,  47,  52,  67, 74,
                                                            86, 104, 117, 146, 178, 208, 230};

struct Node {
  uint64_t weight = 0;
  size_t id = 0;  // symbols first, then inner nodes in the order of their making
};

bool Heavier(const Node& a, const Node& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id > b.id;
}

uint64_t Power(uint64_t base, int exponent) {
  uint64_t out = 1;
  for (int i = 0; i < exponent; ++i) out *= base;
  return out;
}

// Huffman's algorithm for weights of at least `least`.
std::array<uint8_t, kSymbols> Lengths(uint64_t share, uint64_t least) {
  std::vector<Node> heap;
  for (size_t mask = 0; mask < kSymbols; ++mask) {
    const int ones = std::popcount(mask);
    heap.push_back({std::max(Power(share, ones) * Power(64 - share, 8 - ones), least), mask});
  }
  std::make_heap(heap.begin(), heap.end(), Heavier);
  std::vector<size_t> parent(2 * kSymbols - 1, 0);
  for (size_t next = kSymbols; heap.size() > 1; ++next) {
    uint64_t weight = 0;
    for (int child = 0; child < 2; ++child) {
      std::pop_heap(heap.begin(), heap.end(), Heavier);
      parent[heap.back().id] = next;
      weight += heap.back().weight;
      heap.pop_back();
    }
    heap.push_back({weight, next});
    std::push_heap(heap.begin(), heap.end(), Heavier);
  }
  std::array<uint8_t, kSymbols> lengths = {};
  for (size_t mask = 0; mask < kSymbols; ++mask) {
    for (size_t at = mask; at != 2 * kSymbols - 2; at = parent[at]) ++lengths[mask];
  }
  return lengths;
}

// With the smallest floor, in steps of 2^-16 of the total, that keeps symbols short enough.
std::array<uint8_t, kSymbols> ShortLengths(uint64_t share) {
  const uint64_t step = Power(64, 8) >> 16;
  for (uint64_t least = step;; least += step) {
    const auto lengths = Lengths(share, least);
    if (*std::max_element(lengths.begin(), lengths.end()) <= kMaskCodeBits) return lengths;
  }
}

uint16_t Reversed(uint32_t bits, int length) {
  uint32_t out = 0;
  for (int i = 0; i < length; ++i) out |= ((bits >> i) & 1) << (length - 1 - i);
  return static_cast<uint16_t>(out);
}

// Canonical: shorter words first, equal ones in the order of their masks.
MaskCode CodeOf(const std::array<uint8_t, kSymbols>& lengths) {
  std::array<uint8_t, kSymbols> order;
  std::iota(order.begin(), order.end(), uint8_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](uint8_t a, uint8_t b) { return lengths[a] < lengths[b]; });
  MaskCode code;
  uint32_t next = 0;
  int length = lengths[order[0]];
  for (const uint8_t mask : order) {
    next <<= lengths[mask] - length;
    length = lengths[mask];
    const uint16_t bits = Reversed(next++, length);
    code.words[mask] = {bits, static_cast<uint16_t>(length)};
    for (size_t i = bits; i < code.matches.size(); i += size_t{1} << length) {
      code.matches[i] = static_cast<uint16_t>(mask * 256 + length);
    }
  }
  SKERRY_CHECK(next == uint32_t{1} << length, "a complete code");
  return code;
}

MaskCodes MakeCodes() {
  MaskCodes codes;
  for (size_t level = 0; level < kMaskLevels; ++level) {
    codes[level] = CodeOf(ShortLengths(kSharesOf64[level]));
  }
  SKERRY_CHECK(codes[kPlainMaskLevel].words[1].length == 8);
  return codes;
}

constexpr auto kLevels = [] {
  std::array<uint8_t, 257> by_ones = {};
  for (size_t n = 0; n < by_ones.size(); ++n) {
    const auto above = std::upper_bound(kOnesOf256.begin(), kOnesOf256.end(), n);
    by_ones[n] = static_cast<uint8_t>(above - kOnesOf256.begin());
  }
  return by_ones;
}();

}  // namespace

const MaskCodes& AllMaskCodes() {
  static const MaskCodes codes = MakeCodes();
  return codes;
}

uint8_t MaskLevelFor(size_t ones, size_t places) {
  return kLevels[places == 256 ? ones : ones * 256 / places];
}

}  // namespace skerry
