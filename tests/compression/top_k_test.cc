// The top-k codec against the plain packing (12 bits a place, 2 a value) of what sorting selects.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "compression/step_scale.h"
#include "compression/tile_levels.h"
#include "compression/tile_selection.h"
#include "tests/compression/every_codec.h"

namespace skerry {
namespace {

const Codec& TopK() {
  return CodecFor(DeltaCodec::kTopK);
}

// The k largest by sorting, then 14 bits each into one long row of bits, then back.
struct PlainPacking {
  std::vector<bool> bits;
  std::vector<std::array<float, 2>> levels;  // low and high, a tile each

  void Put(uint32_t value, int count) {
    for (int i = 0; i < count; ++i) bits.push_back(((value >> i) & 1) != 0);
  }
};

std::vector<size_t> LargestBySorting(std::span<const float> tile, size_t k) {
  std::vector<size_t> order(tile.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return std::fabs(tile[a]) > std::fabs(tile[b]); });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

float NearestRatioLevel(float step, double high) {
  float best = 0;
  for (size_t code = 1; code < kRatios.size(); ++code) {
    const float level = step * static_cast<float>(kRatios[code]) / 4;
    if (best == 0 || std::fabs(level - high) < std::fabs(best - high)) best = level;
  }
  return best;
}

void PackPlainly(std::span<const float> tile, PlainPacking* out) {
  const auto kept = LargestBySorting(tile, (tile.size() + 63) / 64);
  double mean = 0, low = 0, high = 0;
  int lows = 0, highs = 0;
  for (const size_t i : kept) mean += std::fabs(double{tile[i]});
  mean /= static_cast<double>(kept.size());
  for (const size_t i : kept) {
    const double magnitude = std::fabs(double{tile[i]});
    const bool is_high = magnitude > mean;
    (is_high ? high : low) += magnitude;
    ++(is_high ? highs : lows);
    out->Put(static_cast<uint32_t>(i), 12);
    out->Put((is_high ? 1 : 0) + (std::signbit(tile[i]) ? 2 : 0), 2);
  }
  const float step = StepValue(NearestStep(static_cast<float>(low / lows)));
  out->levels.push_back({step, highs == 0 ? step : NearestRatioLevel(step, high / highs)});
}

std::vector<float> UnpackPlainly(const PlainPacking& packed, size_t n) {
  std::vector<float> values(n, 0.0f);
  size_t at = 0;
  const auto take = [&](int count) {
    uint32_t value = 0;
    for (int i = 0; i < count; ++i) value |= static_cast<uint32_t>(packed.bits[at++]) << i;
    return value;
  };
  for (size_t first = 0; first < n; first += 4096) {
    const size_t kept = (std::min<size_t>(4096, n - first) + 63) / 64;
    for (size_t j = 0; j < kept; ++j) {
      const size_t place = first + take(12);
      const uint32_t value = take(2);
      const float level = packed.levels[first / 4096][value & 1];
      values[place] = value >= 2 ? -level : level;
    }
  }
  return values;
}

TEST_CASE(
    "Codec topk: the decoded update is that of the plain packing, at 0.155 bit instead of 0.219",
    "[compression]") {
  for (const size_t n : {4096u, 4096u * 70, 4096u * 3 + 1000, 5u, 64u, 65u, 300u}) {
    CAPTURE(n);
    const auto u = Gaussian(n, n);
    PlainPacking plain;
    for (size_t first = 0; first < n; first += 4096) {
      PackPlainly(std::span(u).subspan(first, std::min<size_t>(4096, n - first)), &plain);
    }
    const Bytes message = MustEncode(TopK(), u);
    CHECK(SameBits(MustDecode(TopK(), message, n), UnpackPlainly(plain, n)));
    if (n % 4096 != 0) continue;
    CHECK(static_cast<double>(plain.bits.size()) == 0.21875 * static_cast<double>(n));
    CHECK(8.0 * static_cast<double>(message.size()) <= 0.155 * static_cast<double>(n));
  }
}

TEST_CASE("Codec topk: a tile worked by hand", "[compression]") {
  // 130 values keep 3. Gaps 4, 94 and 27; levels 2.5 (mean of 2 and 3) and 5 · 2.5 / 4.
  std::vector<float> u(130, 0.25f);
  u[4] = -2.0f, u[99] = 6.0f, u[127] = 3.0f;
  const Bytes message = MustEncode(TopK(), u);
  // Head 15 · 0 + code 6 of ratio 10 / 4. Low parts 4, 30, 27 of 5 bits. High: the second; minus:
  // the first. Unary 1, 001, 1.
  const uint32_t low = 4 | 30 << 5 | 27 << 10;
  CHECK(message == Bytes{6, 150, low & 255, low >> 8, 0b010, 0b001, 0b11001});
  const auto decoded = MustDecode(TopK(), message, 130);
  for (size_t i = 0; i < 130; ++i) {
    CHECK(decoded[i] == (i == 4 ? -2.5f : i == 99 ? 6.25f : i == 127 ? 2.5f : 0.0f));
  }
}

TEST_CASE("Codec topk: of equal magnitudes the first are kept", "[compression]") {
  const std::vector<float> u(4096, -0.5f);
  const auto decoded = MustDecode(TopK(), MustEncode(TopK(), u), u.size());
  for (size_t i = 0; i < u.size(); ++i) REQUIRE(decoded[i] == (i < 64 ? -0.5f : 0.0f));
}

TEST_CASE("Codec topk: a tile with fewer values than places sends just these", "[compression]") {
  std::vector<float> u(4096, 0.0f);
  u[17] = -1.0f, u[4095] = 1.0f, u[3] = 1e-13f;
  const Bytes message = MustEncode(TopK(), u);
  CHECK(static_cast<int64_t>(message.size()) <= TopK().EncodedSizeMax(4096));
  const auto decoded = MustDecode(TopK(), message, u.size());
  u[3] = 0.0f;
  CHECK(decoded == u);
  CHECK(MustDecode(TopK(), MustEncode(TopK(), std::vector(4096, 0.0f)), 4096) ==
        std::vector(4096, 0.0f));
}

TileSelection Selected(const std::vector<float>& u) {
  TileSelector selector(BestLoops(), {u.data()});
  TileSelection tile;
  REQUIRE(selector.Select({u.data()}, u.size(), &tile));
  return tile;
}

TEST_CASE("Law 6: what top-k leaves is at most 1 − k/n of the square", "[compression]") {
  const size_t n = GENERATE(4096u, 1000u, 64u, 1u);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto u = seed % 2 == 0 ? HeavyTail(n, seed) : Gaussian(n, seed);
    const TileSelection tile = Selected(u);
    double all = 0, kept = 0;
    for (const float v : u) all += double{v} * v;
    for (size_t j = 0; j < KeptOf(n); ++j) kept += std::pow(double{u[tile.places[j]]}, 2);
    CHECK(all - kept <=
          (1 - static_cast<double>(KeptOf(n)) / static_cast<double>(n)) * all * (1 + 1e-12));
  }
}

TEST_CASE("Codec topk: places that crowd the columns of the first guess are found all the same",
          "[compression]") {
  // All large values in few columns of 256: the first threshold is far too low.
  std::vector<float> u = Gaussian(4096, 3);
  for (size_t i = 0; i < 4096; i += 256) {
    for (size_t j = 0; j < 5; ++j) u[i + j] = 1.0f + 1e-3f * static_cast<float>(i + j);
  }
  const TileSelection tile = Selected(u);
  const auto want = LargestBySorting(u, 64);
  for (size_t j = 0; j < 64; ++j) CHECK(tile.places[j] == want[j]);
}

TEST_CASE("Codec topk: what a tile keeps does not depend on the tiles before it", "[compression]") {
  // Guesses that are too high, too low, and near; few magnitudes; nothing at all.
  std::vector<float> u;
  const float scales[] = {1e-3f, 1.0f, 1e-6f, 1.1e-6f, 1e-6f, 0.0f, 1e-2f};
  for (size_t t = 0; t < std::size(scales); ++t) {
    for (const float v : Gaussian(4096, t)) u.push_back(v * scales[t]);
  }
  for (size_t i = 0; i < 4096; ++i) u.push_back(i % 9 == 0 ? 1e-2f : -1e-3f);
  TileSelector selector(BestLoops(), {u.data()});
  for (size_t first = 0; first < u.size(); first += 4096) {
    TileSelection tile;
    REQUIRE(selector.Select({u.data() + first}, 4096, &tile));
    const auto alone = std::vector(u.begin() + static_cast<int64_t>(first),
                                   u.begin() + static_cast<int64_t>(first) + 4096);
    const TileSelection want = Selected(alone);
    CHECK(tile.places == want.places);
    CHECK((tile.high == want.high && tile.minus == want.minus));
    CHECK((tile.step == want.step && tile.ratio == want.ratio));
    if (first / 4096 != 5) CHECK(LargestBySorting(alone, 64)[63] == tile.places[63]);
  }
}

TEST_CASE("Codec topk: levels are means in index order, however far apart the magnitudes",
          "[compression]") {
  // Exponents within 23 of each other are added in vectors, others one by one.
  const int spread = GENERATE(1, 20, 23, 24, 32);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed, "spread");
    std::vector<float> u(4096, 0.0f);
    for (size_t i = 0; i < 4096; i += 60) {
      const double exponent = static_cast<double>(rng.Below(static_cast<uint64_t>(spread) + 1));
      u[i] = static_cast<float>((1 + rng.Uniform()) * std::exp2(-exponent));
    }
    const TileSelection tile = Selected(u);
    TileSelection want;
    struct {
      std::array<uint32_t, 64> magnitudes;
      size_t size = 64;
    } kept;
    for (size_t j = 0; j < 64; ++j) kept.magnitudes[j] = std::bit_cast<uint32_t>(u[tile.places[j]]);
    ChooseLevels(kept, &want);
    CHECK((tile.step == want.step && tile.ratio == want.ratio && tile.high == want.high));
  }
}

TEST_CASE("Codec topk: places outside the tile, missing ones, excess levels are refused",
          "[compression][error]") {
  std::vector<float> u(130, 0.25f);
  u[4] = -2.0f, u[99] = 6.0f, u[127] = 3.0f;
  const Bytes good = MustEncode(TopK(), u);
  std::vector<float> values(130);
  const auto refused = [&](size_t at, uint8_t byte) {
    Bytes bytes = good;
    bytes.at(at) = byte;
    return absl::IsInvalidArgument(TopK().Decode(bytes, values));
  };
  CHECK_FALSE(refused(6, 0b11001));
  CHECK(refused(6, 0b11011));    // four places
  CHECK(refused(6, 0b01001));    // two
  CHECK(refused(6, 0b1100001));  // the last beyond 130
  CHECK(refused(0, 15 + 6));     // a length that the bytes do not have
  CHECK(refused(1, 189));        // a step outside the window
  CHECK(refused(1, 186));        // 2.5 times 1280
  CHECK_FALSE(refused(1, 170));
}

}  // namespace
}  // namespace skerry
