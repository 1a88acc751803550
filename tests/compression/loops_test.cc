// The loops against what their definitions say, whatever the instruction set.
#include "compression/loops.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>

#include "compression/fixed_point.h"
#include "compression/step_scale.h"
#include "tests/compression/every_codec.h"

namespace skerry {
namespace {

std::vector<const CodecLoops*> EveryLoops() {
  std::vector<const CodecLoops*> all = {&BaselineLoops()};
  for (const CodecLoops* loops : {Avx2Loops(), Avx512Loops()}) {
    if (loops != nullptr) all.push_back(loops);
  }
  return all;
}

bool Bit(const std::vector<uint64_t>& mask, size_t i) {
  return ((mask[i / 64] >> (i % 64)) & 1) != 0;
}

std::vector<uint64_t> RandomMask(size_t words, uint64_t seed) {
  Rng rng(seed, "mask");
  std::vector<uint64_t> mask(words);
  for (uint64_t& word : mask) word = rng.Next() & rng.Next();
  return mask;
}

TEST_CASE("Loops: a sum becomes a float as the language's conversion says", "[compression]") {
  const CodecLoops& loops = *GENERATE(from_range(EveryLoops()));
  std::vector<int64_t> sums = {
      0, 1, -1, 1LL << 61, -(1LL << 61), (1LL << 53) + 1, -(1LL << 53) - 1};
  Rng rng(12, "sums");
  for (int i = 0; i < 2000; ++i) {
    const auto shift = static_cast<int>(2 + rng.Below(60));
    sums.push_back(static_cast<int64_t>(rng.Next()) >> shift);
  }
  std::vector<float> mean(sums.size());
  const double scale = kQuantum / 7;
  loops.scale_sum(sums.data(), sums.size(), scale, mean.data());
  for (size_t i = 0; i < sums.size(); ++i) {
    REQUIRE(mean[i] == static_cast<float>(static_cast<double>(sums[i]) * scale));
  }
}

TEST_CASE("Loops: rounding to the quantum is nearbyint", "[compression]") {
  const CodecLoops& loops = *GENERATE(from_range(EveryLoops()));
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto u = HeavyTail(1000, seed);
    std::vector<float> out(u.size());
    REQUIRE(loops.round_to_quantum({u.data()}, u.size(), out.data()));
    for (size_t i = 0; i < u.size(); ++i) {
      REQUIRE(out[i] == static_cast<float>(std::nearbyint(double{u[i]} * 0x1p40) * 0x1p-40));
      REQUIRE_FALSE((out[i] == 0 && std::signbit(out[i])));
    }
  }
}

TEST_CASE("Loops: a scalar product is that of its written order, whatever the instruction set",
          "[compression]") {
  const CodecLoops& loops = *GENERATE(from_range(EveryLoops()));
  for (const size_t n : {0, 1, 15, 16, 17, 100, 256}) {
    const auto u = HeavyTail(n, 1), v = HeavyTail(n, 2);
    const std::vector<double> a(u.begin(), u.end()), b(v.begin(), v.end());
    double sums[16] = {};
    for (size_t i = 0; i < n; ++i) sums[i % 16] += a[i] * b[i];
    for (size_t half = 8; half > 0; half /= 2) {
      for (size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
    }
    CHECK(loops.product(a.data(), b.data(), n) == sums[0]);
  }
}

TEST_CASE("Loops: of two rows the smaller values come first", "[compression]") {
  const CodecLoops& loops = *GENERATE(from_range(EveryLoops()));
  const auto u = HeavyTail(1000, 3), v = HeavyTail(1000, 4);
  auto low = u, high = v;
  loops.exchange(low.data(), high.data(), low.size());
  for (size_t i = 0; i < u.size(); ++i) {
    REQUIRE(low[i] == std::min(u[i], v[i]));
    REQUIRE(high[i] == std::max(u[i], v[i]));
  }
}

TEST_CASE("Loops: masks say which values are large and which negative", "[compression]") {
  const CodecLoops& loops = *GENERATE(from_range(EveryLoops()));
  const size_t n = GENERATE(1u, 63u, 64u, 65u, 300u);
  auto u = HeavyTail(n, n);
  u[n / 2] = -0.0f;
  const float threshold = std::fabs(u[n / 3]) + 0x1p-60f;
  std::vector<uint64_t> large((n + 63) / 64, ~0ULL), minus = large;
  const size_t ones = loops.at_least(u.data(), n, std::bit_cast<uint32_t>(threshold), large.data());
  loops.negative(u.data(), n, minus.data());
  size_t counted = 0;
  for (size_t i = 0; i < large.size() * 64; ++i) {
    REQUIRE(Bit(large, i) == (i < n && std::fabs(u[i]) >= threshold));
    REQUIRE(Bit(minus, i) == (i < n && std::signbit(u[i])));
    counted += Bit(large, i) ? 1 : 0;
  }
  CHECK(ones == counted);
}

TEST_CASE("Loops: packed bits unpack to where they were", "[compression]") {
  const CodecLoops& loops = *GENERATE(from_range(EveryLoops()));
  for (uint64_t seed = 0; seed < 50; ++seed) {
    auto select = RandomMask(seed % 9, seed);
    if (seed % 5 == 0) std::fill(select.begin(), select.end(), seed % 2 == 0 ? ~0ULL : 0);
    const auto bits = RandomMask(select.size(), seed + 1000);
    std::vector<uint64_t> packed(select.size()), back(select.size(), 7);
    const size_t count = loops.pack_bits(bits.data(), select.data(), select.size(), packed.data());
    size_t at = 0;
    for (size_t i = 0; i < select.size() * 64; ++i) {
      if (Bit(select, i)) REQUIRE(Bit(packed, at++) == Bit(bits, i));
    }
    REQUIRE(count == at);
    loops.unpack_bits(packed.data(), select.data(), select.size(), back.data());
    for (size_t w = 0; w < select.size(); ++w) REQUIRE(back[w] == (bits[w] & select[w]));
  }
}

TEST_CASE("Loops: the k-th largest is what sorting finds", "[compression]") {
  const CodecLoops& loops = *GENERATE(from_range(EveryLoops()));
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Rng rng(seed, "kth");
    std::vector<uint32_t> values(1 + rng.Below(300));
    for (uint32_t& value : values)
      value = static_cast<uint32_t>(rng.Next() >> (33 + rng.Below(30)));
    const size_t k = 1 + rng.Below(values.size());
    auto sorted = values;
    std::sort(sorted.rbegin(), sorted.rend());
    CHECK(loops.kth_largest(values.data(), values.size(), k, 0) == sorted[k - 1]);
    CHECK(loops.kth_largest(values.data(), values.size(), k, 16) == sorted[k - 1] >> 16 << 16);
  }
}

TEST_CASE("Steps: the nearest of three significant bits, ties upward", "[compression]") {
  CHECK(NearestStep(0.0f) == 0);
  CHECK(NearestStep(0x1.fffffep-38f) == 0);
  CHECK(NearestStep(0x1p-37f) == 1);
  CHECK(NearestStep(2032.0f) == kStepCodeMax);
  for (int code = 1; code <= kStepCodeMax; ++code) {
    const auto c = static_cast<uint8_t>(code);
    CHECK(NearestStep(StepValue(c)) == code);
    CHECK(static_cast<double>(StepUnits(c)) == static_cast<double>(StepValue(c)) * 0x1p40);
    if (code == kStepCodeMax) continue;
    const float middle = (StepValue(c) + StepValue(static_cast<uint8_t>(code + 1))) / 2;
    CHECK(NearestStep(middle) == code + 1);
    CHECK(NearestStep(std::nextafter(middle, 0.0f)) == code);
  }
}

}  // namespace
}  // namespace skerry
