// The loops against what their definitions say, whatever the instruction set.
#include "compression/loops.h"

#include <algorithm>
#include <array>
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

TEST_CASE("Loops: masks say which values are large", "[compression]") {
  const CodecLoops& loops = *GENERATE(from_range(EveryLoops()));
  const size_t n = GENERATE(1u, 63u, 64u, 65u, 300u);
  auto u = HeavyTail(n, n);
  u[n / 2] = -0.0f;
  const float threshold = std::fabs(u[n / 3]) + 0x1p-60f;
  const auto bits = std::bit_cast<uint32_t>(threshold);
  std::vector<uint64_t> large((n + 63) / 64, ~0ULL), same = large, formed = large;
  const size_t ones = loops.at_least(u.data(), n, bits, large.data());
  size_t counted = 0;
  for (size_t i = 0; i < large.size() * 64; ++i) {
    REQUIRE(Bit(large, i) == (i < n && std::fabs(u[i]) >= threshold));
    counted += Bit(large, i) ? 1 : 0;
  }
  CHECK(ones == counted);
  std::vector<uint32_t> magnitudes(n);
  float most = 0;
  for (size_t i = 0; i < n; ++i) {
    magnitudes[i] = std::bit_cast<uint32_t>(std::fabs(u[i]));
    most = std::max(most, std::fabs(u[i]));
  }
  CHECK(loops.magnitudes_at_least(magnitudes.data(), n, bits, same.data()) == ones);
  CHECK(same == large);
  std::vector<float> kept(n);
  TileMarks marks = {kept.data(), formed.data()};
  ReadAhead ahead({u.data()});
  CHECK(loops.form_above({u.data()}, n, bits, &marks, &ahead) == std::bit_cast<uint32_t>(most));
  CHECK((marks.reach == ones && formed == large));
  CHECK(SameBits(kept, u));
}

TEST_CASE("Loops: a mask's places are listed in order", "[compression]") {
  const CodecLoops& loops = *GENERATE(from_range(EveryLoops()));
  for (uint64_t seed = 0; seed < 50; ++seed) {
    auto mask = RandomMask(seed % 9, seed);
    for (uint64_t& word : mask) word &= RandomMask(1, seed + word % 97)[0];
    if (seed % 5 == 0) std::fill(mask.begin(), mask.end(), seed % 2 == 0 ? ~0ULL : 0);
    std::vector<uint16_t> want, places(mask.size() * 64 + kPlacesSlack);
    for (size_t i = 0; i < mask.size() * 64; ++i) {
      if (Bit(mask, i)) want.push_back(static_cast<uint16_t>(i));
    }
    ReadAhead ahead = ReadAhead::Nothing();
    places.resize(loops.list_places(mask.data(), mask.size(), places.data(), &ahead));
    CHECK(places == want);
  }
}

TEST_CASE("Loops: large magnitudes add up", "[compression]") {
  const CodecLoops& loops = *GENERATE(from_range(EveryLoops()));
  const size_t n = GENERATE(0u, 1u, 7u, 8u, 64u);
  std::vector<uint32_t> magnitudes(n);
  double all = 0, large = 0;
  for (size_t i = 0; i < n; ++i) {
    const float v = 0.5f + 0.25f * static_cast<float>(i % 13);
    magnitudes[i] = std::bit_cast<uint32_t>(v);
    all += double{v};
    if (v >= 2) large += double{v};
  }
  CHECK(loops.sum_at_least(magnitudes.data(), n, 0) == all);
  CHECK(loops.sum_at_least(magnitudes.data(), n, std::bit_cast<uint32_t>(2.0f)) == large);
}

TEST_CASE("Loops: four streams of words are read as one by one", "[compression]") {
  const CodecLoops& loops = *GENERATE(from_range(EveryLoops()));
  constexpr size_t kBytes = 2 * 32 * kMaskCodeBits / 8 + kBitSlack;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::array<std::array<uint64_t, (kBytes + 7) / 8>, 4> streams;
    std::array<std::array<uint64_t, 4>, 4> four, two, one;
    uint64_t* masks[4];
    const MaskCode* codes[4];
    BitReader readers[4], again[4];
    for (size_t s = 0; s < 4; ++s) {
      const auto random = RandomMask(streams[s].size(), 4 * seed + s);
      std::copy(random.begin(), random.end(), streams[s].begin());
      codes[s] = &AllMaskCodes()[(seed + 5 * s) % kMaskLevels];
      masks[s] = four[s].data();
      const auto* bytes = reinterpret_cast<const uint8_t*>(streams[s].data());
      readers[s] = again[s] = BitReader(bytes);
      BitReader alone(bytes);
      loops.take_words(*codes[s], 32, &alone, one[s].data());
    }
    loops.take_four(codes, readers, masks, nullptr, 0);
    for (size_t s = 0; s < 4; ++s) masks[s] = two[s].data();
    loops.take_two(codes, again, masks, nullptr, 0);
    loops.take_two(codes + 2, again + 2, masks + 2, nullptr, 0);
    CHECK(four == one);
    CHECK(two == one);
    for (size_t s = 0; s < 4; ++s) CHECK(readers[s].Peek() == again[s].Peek());
  }
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
    for (const uint32_t below : {sorted[k - 1], 1u, 1000u, 0u}) {
      const uint32_t floor = sorted[k - 1] - std::min(below, sorted[k - 1]);
      CHECK(loops.kth_largest(values.data(), values.size(), k, floor) == sorted[k - 1]);
    }
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
