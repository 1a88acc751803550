// The bodies of the loops that find the largest of what a tile's mask names, included like
// value_loops.h.
#pragma once

constexpr size_t kWordsPerLine = 2;

// Three places of a word without a branch: most have no more.
size_t ListPlaces(const uint64_t* mask, size_t words, uint16_t* places, ReadAhead* ahead) {
  size_t found = 0;
  ReadAhead reading = *ahead;
  for (size_t w = 0; w < words; ++w) {
    if (w % kWordsPerLine == 0) reading.Line();
    uint64_t left = mask[w];
    const auto put = [&](size_t at) __attribute__((always_inline)) {
      places[at] = static_cast<uint16_t>(w * 64 + static_cast<size_t>(std::countr_zero(left)));
      left &= left - 1;
    };
    const auto ones = static_cast<size_t>(std::popcount(left));
    put(found);
    put(found + 1);
    put(found + 2);
    for (size_t i = 3; i < ones; ++i) put(found + i);
    found += ones;
  }
  *ahead = reading;
  return found;
}

// Eight sums of every eighth.
double SumAtLeast(const uint32_t* magnitudes, size_t n, uint32_t threshold_bits) {
  constexpr size_t kSums = 8;
  const auto threshold = static_cast<int32_t>(threshold_bits);
  double sums[kSums] = {};
  const auto add = [&](size_t i, size_t j) __attribute__((always_inline)) {
    const int32_t keep = -static_cast<int32_t>(static_cast<int32_t>(magnitudes[i]) >= threshold);
    sums[j] += double{std::bit_cast<float>(magnitudes[i] & static_cast<uint32_t>(keep))};
  };
  size_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (size_t j = 0; j < kSums; ++j) add(i + j, j);
  }
  for (size_t j = 0; i + j < n; ++j) add(i + j, j);
  for (size_t half = kSums / 2; half > 0; half /= 2) {
    for (size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return sums[0];
}

void ColumnMaxima(const float* u, size_t n, uint32_t* maxima) {
  alignas(64) int32_t so_far[kMaximaColumns] = {};
  for (size_t first = 0; first < n; first += kMaximaColumns) {
    const size_t count = std::min(kMaximaColumns, n - first);
    for (size_t i = 0; i < count; ++i) {
      const auto bits =
          static_cast<int32_t>(std::bit_cast<uint32_t>(u[first + i]) & kMagnitudeBits);
      so_far[i] = bits > so_far[i] ? bits : so_far[i];
    }
  }
  for (size_t i = 0; i < kMaximaColumns; ++i) maxima[i] = static_cast<uint32_t>(so_far[i]);
}

// The threshold grows bit by bit, from the first one in which the floor and the largest differ,
// while k values still reach it; when just k do, the least of them is it.
uint32_t KthLargest(const uint32_t* values, size_t n, size_t k, uint32_t floor) {
  int32_t largest = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto value = static_cast<int32_t>(values[i]);
    largest = value > largest ? value : largest;
  }
  const int bits = std::bit_width(static_cast<uint32_t>(largest) ^ floor);
  int32_t threshold = bits == 32 ? 0 : static_cast<int32_t>(floor >> bits << bits);
  for (int bit = bits - 1; bit >= 0; --bit) {
    const int32_t candidate = threshold | (1 << bit);
    int32_t reach = 0;
    for (size_t i = 0; i < n; ++i) reach += static_cast<int32_t>(values[i]) >= candidate ? 1 : 0;
    if (static_cast<size_t>(reach) < k) continue;
    threshold = candidate;
    if (static_cast<size_t>(reach) > k) continue;
    int32_t least = largest;
    for (size_t i = 0; i < n; ++i) {
      const auto value = static_cast<int32_t>(values[i]);
      const int32_t reaching = value >= candidate ? value : largest;
      least = reaching < least ? reaching : least;
    }
    return static_cast<uint32_t>(least);
  }
  return static_cast<uint32_t>(threshold);
}
