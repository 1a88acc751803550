// The block codecs and the plain ones, each against its own format, worked by hand.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "compression/fixed_point.h"
#include "tests/compression/every_codec.h"

namespace skerry {
namespace {

TEST_CASE("Codec none: values from 2^-16 up are exact, smaller ones within half a quantum",
          "[compression]") {
  const Codec& codec = CodecFor(DeltaCodec::kNone);
  const auto u = HeavyTail(20'000, 5);
  const auto decoded = MustDecode(codec, MustEncode(codec, u), u.size());
  for (size_t i = 0; i < u.size(); ++i) {
    const double error = std::fabs(static_cast<double>(u[i]) - decoded[i]);
    REQUIRE(error <= (std::fabs(u[i]) >= 0x1p-16 ? 0.0 : 0x1p-41));
  }
}

TEST_CASE("Codec int8: a value is off by at most half its block's step", "[compression]") {
  const Codec& codec = CodecFor(DeltaCodec::kInt8);
  const auto u = HeavyTail(20'000, 6);
  const auto decoded = MustDecode(codec, MustEncode(codec, u), u.size());
  for (size_t first = 0; first < u.size(); first += 256) {
    const size_t last = std::min(first + 256, u.size());
    double absmax = 0;
    for (size_t i = first; i < last; ++i) absmax = std::max(absmax, std::fabs(double{u[i]}));
    const double step = std::max(absmax / 63.75, 0x1p-40);
    for (size_t i = first; i < last; ++i) {
      REQUIRE(std::fabs(static_cast<double>(u[i]) - decoded[i]) <= step / 2);
    }
  }
}

TEST_CASE("Codec int8: a block worked by hand", "[compression]") {
  // absmax 100 = 1.5625·2^6: step 2^0. Ties go to even: 2.5 → 2, 3.5 → 4, −0.5 → 0.
  const Codec& codec = CodecFor(DeltaCodec::kInt8);
  const std::vector<float> u = {100.0f, 2.5f, 3.5f, -0.5f, -99.6f};
  CHECK(MustEncode(codec, u) == Bytes{40, 100, 2, 4, 0, 256 - 100});
  CHECK(MustDecode(codec, MustEncode(codec, u), 5) ==
        std::vector{100.0f, 2.0f, 4.0f, 0.0f, -100.0f});
  // 127.4 still fits step 1, 127.5 needs step 2.
  CHECK(MustEncode(codec, std::vector{127.4f}) == Bytes{40, 127});
  CHECK(MustEncode(codec, std::vector{127.5f}) == Bytes{41, 64});
}

TEST_CASE("Codec int4: a block worked by hand", "[compression]") {
  // absmax 7.4 fits step 1. Values 0, 2, 4 in the low halves, 1, 3 in the high ones.
  const Codec& codec = CodecFor(DeltaCodec::kInt4);
  const std::vector<float> u = {7.4f, 2.5f, -0.6f, -7.0f, 1.5f};
  CHECK(MustEncode(codec, u) == Bytes{40, 0x97, 0x22, 0x0f});
  CHECK(MustDecode(codec, MustEncode(codec, u), 5) == std::vector{7.0f, 2.0f, -1.0f, -7.0f, 2.0f});
  CHECK(MustEncode(codec, std::vector{7.5f}) == Bytes{41, 4});
  // At the top of the window integers saturate.
  CHECK(MustDecode(codec, MustEncode(codec, std::vector{2032.0f}), 1) == std::vector{1792.0f});
}

TEST_CASE("Codec int4: a value is off by at most half its block's step", "[compression]") {
  const Codec& codec = CodecFor(DeltaCodec::kInt4);
  const auto u = Gaussian(20'000, 6);
  const auto decoded = MustDecode(codec, MustEncode(codec, u), u.size());
  for (size_t first = 0; first < u.size(); first += 256) {
    const size_t last = std::min(first + 256, u.size());
    double absmax = 0;
    for (size_t i = first; i < last; ++i) absmax = std::max(absmax, std::fabs(double{u[i]}));
    for (size_t i = first; i < last; ++i) {
      REQUIRE(std::fabs(static_cast<double>(u[i]) - decoded[i]) <= absmax / 7.5);
    }
  }
}

TEST_CASE("Codec bf16: within 2^-8 of the value, and on the grid", "[compression]") {
  const Codec& codec = CodecFor(DeltaCodec::kBf16);
  const auto u = HeavyTail(20'000, 5);
  const auto decoded = MustDecode(codec, MustEncode(codec, u), u.size());
  for (size_t i = 0; i < u.size(); ++i) {
    REQUIRE(std::fabs(static_cast<double>(u[i]) - decoded[i]) <=
            0x1p-8 * std::fabs(u[i]) + 0x1p-40);
  }
  // 1 + 2^-8 lies between 1 and 1 + 2^-7: to even.
  CHECK(MustEncode(codec, std::vector{1.00390625f, -2.0f}) == Bytes{0x80, 0x3f, 0x00, 0xc0});
}

TEST_CASE("Codec sign: a block worked by hand", "[compression]") {
  // The mean magnitude 2.6 lies nearest to 2.5 = 5·2^39 units: code 1 + 4·(39 − 2) + (5 − 4).
  const Codec& codec = CodecFor(DeltaCodec::kSign);
  const std::vector<float> u = {1.0f, -2.0f, 3.0f, -4.4f, 2.6f};
  CHECK(MustEncode(codec, u) == Bytes{150, 0b01010});
  CHECK(MustDecode(codec, Bytes{150, 0b01010}, 5) == std::vector{2.5f, -2.5f, 2.5f, -2.5f, 2.5f});
  CHECK(MustEncode(codec, std::vector{-1e-12f, 0.0f}) == Bytes{0, 0});
}

TEST_CASE("Codec: the largest sum of the largest integers does not overflow", "[compression]") {
  constexpr double kWorst = 0x1p61;
  for (const uint8_t k : {uint8_t{127}, uint8_t{0x80}}) {
    std::vector<int64_t> sum(1, 0);
    REQUIRE(CodecFor(DeltaCodec::kInt8).DecodeAccumulate(Bytes{44, k}, kWeightTotalMax, sum).ok());
    CHECK(std::fabs(static_cast<double>(sum[0])) <= kWorst);
    CHECK((sum[0] > 0) == (k == 127));
  }
  for (const uint8_t k : {uint8_t{7}, uint8_t{8}}) {
    std::vector<int64_t> sum(1, 0);
    REQUIRE(CodecFor(DeltaCodec::kInt4).DecodeAccumulate(Bytes{48, k}, kWeightTotalMax, sum).ok());
    CHECK(std::fabs(static_cast<double>(sum[0])) <= kWorst);
    CHECK((sum[0] > 0) == (k == 7));
  }
  std::vector<int64_t> sum(1, 0);
  const Codec& none = CodecFor(DeltaCodec::kNone);
  const Bytes worst = MustEncode(none, std::vector{kMagnitudeMax});
  REQUIRE(none.DecodeAccumulate(worst, kWeightTotalMax, sum).ok());
  CHECK(static_cast<double>(sum[0]) == double{kMagnitudeMax} * 0x1p50);
}

}  // namespace
}  // namespace skerry
