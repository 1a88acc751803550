// The ternary codec: its quantiser by hand, its entropy coder against the entropy.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>

#include "compression/mask_code.h"
#include "tests/compression/every_codec.h"

namespace skerry {
namespace {

const Codec& Ternary() {
  return CodecFor(DeltaCodec::kTernary);
}

TEST_CASE("Codec ternary: a value is sent when it is worth half a step", "[compression]") {
  // absmax 2.6 lies nearest to step 2.5; the dead zone is open.
  const std::vector<float> u = {2.6f, -1.25f, 1.24f, 0.0f, -2.0f, 0.3f};
  const Bytes message = MustEncode(Ternary(), u);
  CHECK(MustDecode(Ternary(), message, 6) == std::vector{2.5f, -2.5f, 0.0f, 0.0f, -2.5f, 0.0f});
  // Length 2, code of 2.5, level of 3 in 6 places (p = 1/2, the plain mask), reversed mask, signs.
  CHECK(message == Bytes{2, 150, kPlainMaskLevel, 0b11001000, 0b110});
}

TEST_CASE("Codec ternary: a block without values worth the least step is empty", "[compression]") {
  std::vector<float> u(600, 1e-12f);
  u[300] = -1.0f;
  const auto decoded = MustDecode(Ternary(), MustEncode(Ternary(), u), u.size());
  for (size_t i = 0; i < u.size(); ++i) CHECK(decoded[i] == (i == 300 ? -1.0f : 0.0f));
}

TEST_CASE("Codec ternary: the residual of a block stays below five eighths of its absmax",
          "[compression]") {
  // Half the step at most; the step is within 1/8 of the absmax, which it may cut by as much.
  const auto u = Gaussian(20'000, 6);
  const auto decoded = MustDecode(Ternary(), MustEncode(Ternary(), u), u.size());
  for (size_t first = 0; first < u.size(); first += 256) {
    const size_t last = std::min(first + 256, u.size());
    double absmax = 0;
    for (size_t i = first; i < last; ++i) absmax = std::max(absmax, std::fabs(double{u[i]}));
    for (size_t i = first; i < last; ++i) {
      REQUIRE(std::fabs(static_cast<double>(u[i]) - decoded[i]) <= 0.625 * absmax);
    }
  }
}

// Deltas of every shape a round leaves, from even ones to heavy tails: signed powers of a uniform.
std::vector<float> SignedPowers(size_t n, double power, uint64_t seed) {
  Rng rng(seed, "powers");
  std::vector<float> u(n);
  for (float& v : u) {
    const double x = 2 * rng.Uniform() - 1;
    v = static_cast<float>(std::copysign(std::pow(std::fabs(x), power), x));
  }
  return u;
}

TEST_CASE("Codec ternary: at most a bit a value, however even the values are", "[compression]") {
  const double power = GENERATE(1.0, 1.5, 2.0, 4.0);
  CAPTURE(power);
  const auto u = SignedPowers(1 << 18, power, 3);
  const Bytes message = MustEncode(Ternary(), u);
  const double bits = 8.0 * static_cast<double>(message.size()) / static_cast<double>(u.size());
  CHECK(bits <= 1.0);
  CHECK(MustEncode(Ternary(), MustDecode(Ternary(), message, u.size())) == message);
}

TEST_CASE("Codec ternary: a step is never raised where that sends no fewer values",
          "[compression]") {
  std::vector<float> u(512, -0.5f);
  for (size_t i = 0; i < 128; ++i) u[i] = 0.75f;
  const auto decoded = MustDecode(Ternary(), MustEncode(Ternary(), u), u.size());
  // Half of 1.25 only the first 128 reach; the second block has one magnitude.
  CHECK(decoded[0] == 1.25f);
  CHECK(decoded[255] == 0.0f);
  CHECK(decoded[511] == -0.5f);
}

// Bits a value for blocks in which a share p of the values, at random places, is ±1.
double BitsAtShare(double p) {
  constexpr size_t kSize = 256 * 1024;
  Rng rng(7, "share");
  std::vector<float> u(kSize);
  for (float& v : u) v = rng.Uniform() >= p ? 0.0f : rng.Below(2) == 0 ? 1.0f : -1.0f;
  return 8.0 * static_cast<double>(MustEncode(Ternary(), u).size()) / kSize;
}

TEST_CASE("Codec ternary: within 4 % of the entropy and its side information", "[compression]") {
  for (const double p : {0.1, 0.16, 0.2, 0.25, 0.33, 0.5, 0.75}) {
    CAPTURE(p);
    const double entropy = -p * std::log2(p) - (1 - p) * std::log2(1 - p) + p;
    // Step and level of a block, length and half a byte of a tile, index.
    const double side = 12.0 / 256 + 12.0 / 1024 + 0.001;
    CHECK(BitsAtShare(p) <= 1.04 * entropy + side);
    CHECK(BitsAtShare(p) >= entropy);
  }
}

TEST_CASE("Codec ternary: no pattern takes more than the announced maximum", "[compression]") {
  // Patterns that mislead the choice of a code: runs, combs, one hole, at every density.
  for (size_t period = 1; period <= 64; ++period) {
    for (const size_t run : {size_t{1}, period / 2, period - 1}) {
      std::vector<float> u(2048);
      for (size_t i = 0; i < u.size(); ++i) u[i] = i % period < run ? -1.0f : 0.0f;
      const Bytes message = MustEncode(Ternary(), u);
      CHECK(static_cast<int64_t>(message.size()) <= Ternary().EncodedSizeMax(2048));
      CHECK(MustDecode(Ternary(), message, u.size()) == u);
    }
  }
}

TEST_CASE("MaskCode: every code is complete, prefix-free and at most 12 bits", "[compression]") {
  for (uint8_t level = 0; level < kMaskLevels; ++level) {
    const MaskCode& code = AllMaskCodes()[level];
    double kraft = 0;
    for (size_t mask = 0; mask < 256; ++mask) {
      const MaskCode::Word word = code.words[mask];
      kraft += std::exp2(-word.length);
      const size_t noise = (level * 977 + mask * 31) << word.length;
      const uint16_t match = code.matches[(word.bits | noise) % code.matches.size()];
      REQUIRE(match == mask * 256 + word.length);
    }
    CHECK(kraft == 1.0);
  }
}

TEST_CASE("MaskCode: the level chosen is the shortest in expectation", "[compression]") {
  const auto expected_length = [](uint8_t level, double p) {
    double bits = 0;
    for (size_t mask = 0; mask < 256; ++mask) {
      const int ones = std::popcount(mask);
      bits +=
          std::pow(p, ones) * std::pow(1 - p, 8 - ones) * AllMaskCodes()[level].words[mask].length;
    }
    return bits;
  };
  for (size_t ones = 0; ones <= 256; ones += 4) {
    const double p = static_cast<double>(ones) / 256;
    double best = 1e9;
    for (uint8_t level = 0; level < kMaskLevels; ++level) {
      best = std::min(best, expected_length(level, p));
    }
    CHECK(expected_length(MaskLevelFor(ones, 256), p) <= 1.03 * best);
  }
}

}  // namespace
}  // namespace skerry
