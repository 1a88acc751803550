// Decoding is total: whatever the bytes, an error that changes nothing, or finite values on the
// grid.
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>

#include "compression/fixed_point.h"
#include "tests/compression/every_codec.h"

namespace skerry {
namespace {

// Decodes `bytes` in every way there is; returns whether they were accepted. The bytes are copied
// to a block of exactly their size, so that a sanitizer sees any read past the end.
bool SurvivesDecoding(const Codec& codec, std::span<const uint8_t> bytes, size_t n) {
  const auto exact = std::make_unique<uint8_t[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), exact.get());
  const std::span<const uint8_t> copy(exact.get(), bytes.size());
  std::vector<float> values(n, 5.0f);
  std::vector<int64_t> sum(n, 5);
  const bool ok = codec.Decode(copy, values).ok();
  REQUIRE(codec.DecodeAccumulate(copy, 1, sum).ok() == ok);
  bool sound = true;  // one assertion for all values: there are millions
  for (size_t i = 0; i < n; ++i) {
    const double units = static_cast<double>(values[i]) * 0x1p40;
    sound &= ok ? std::fabs(values[i]) <= 2048.0f && static_cast<double>(sum[i] - 5) == units
                : values[i] == 5.0f && sum[i] == 5;
  }
  REQUIRE(sound);
  return ok;
}

TEST_CASE("Codec: a message of the wrong length is refused and changes nothing",
          "[compression][error]") {
  const Codec& codec = CodecFor(GENERATE(from_range(EveryCodec())));
  constexpr size_t kSize = 600;
  const Bytes good = MustEncode(codec, HeavyTail(kSize, 8));
  Bytes truncated(good.begin(), good.end() - 1), extended = good;
  extended.push_back(0);
  const Bytes oversized(static_cast<size_t>(codec.EncodedSizeMax(kSize)) + 1, 0);
  for (const Bytes& bad : {truncated, extended, oversized, Bytes{}}) {
    CHECK_FALSE(SurvivesDecoding(codec, bad, kSize));
  }
  std::vector<int64_t> sum(kSize, 5);
  CHECK(absl::IsInvalidArgument(codec.DecodeAccumulate(good, 0, sum)));
  CHECK(absl::IsInvalidArgument(codec.DecodeAccumulate(good, kWeightTotalMax + 1, sum)));
  CHECK(sum == std::vector<int64_t>(kSize, 5));
}

TEST_CASE("Codec: a scale outside the window, a value that is not finite are refused",
          "[compression][error]") {
  const auto poisoned = [](DeltaCodec kind, size_t at, uint8_t byte) {
    Bytes bytes = MustEncode(CodecFor(kind), HeavyTail(601, 8));
    bytes.at(at) = byte;
    return SurvivesDecoding(CodecFor(kind), bytes, 601);
  };
  CHECK_FALSE(poisoned(DeltaCodec::kInt8, 2, 45));
  CHECK_FALSE(poisoned(DeltaCodec::kInt4, 2, 49));
  CHECK_FALSE(poisoned(DeltaCodec::kInt4, 2 + 301, 0xf0));
  CHECK_FALSE(poisoned(DeltaCodec::kSign, 2, 189));
  CHECK_FALSE(poisoned(DeltaCodec::kSign, 2 + 76, 0x80));
  CHECK_FALSE(poisoned(DeltaCodec::kNone, 3, 0x7f));
  CHECK_FALSE(poisoned(DeltaCodec::kBf16, 1, 0x7f));
}

TEST_CASE("Codec: mutated messages are refused or decode to finite values on the grid",
          "[compression][fuzz]") {
  const Codec& codec = CodecFor(GENERATE(from_range(EveryCodec())));
  int accepted = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    Rng rng(seed, "mutation");
    const size_t n = 1 + rng.Below(rng.Below(4) == 0 ? 9000 : 700);
    Bytes bytes = MustEncode(codec, rng.Below(2) == 0 ? HeavyTail(n, seed) : Gaussian(n, seed));
    const uint64_t flips = rng.Below(4);
    for (uint64_t i = 0; i < flips; ++i) {
      bytes[rng.Below(bytes.size())] ^= static_cast<uint8_t>(1 << rng.Below(8));
    }
    if (rng.Below(4) == 0) bytes[rng.Below(bytes.size())] = static_cast<uint8_t>(rng.Next());
    if (rng.Below(8) == 0) bytes.resize(rng.Below(bytes.size() + 1));
    if (rng.Below(8) == 0) bytes.insert(bytes.end(), rng.Below(9), static_cast<uint8_t>(seed));
    accepted += SurvivesDecoding(codec, bytes, n) ? 1 : 0;
  }
  CHECK(accepted > 250);
}

TEST_CASE("Codec: random bytes are refused or decode to finite values on the grid",
          "[compression][fuzz]") {
  const Codec& codec = CodecFor(GENERATE(from_range(EveryCodec())));
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Rng rng(seed, "fuzz");
    const auto n = static_cast<int64_t>(rng.Below(40));
    const int64_t spare = codec.EncodedSizeMax(n) - codec.EncodedSizeMin(n);
    Bytes bytes(static_cast<size_t>(codec.EncodedSizeMin(n)) + rng.Below(spare + 1));
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(rng.Next());
    if (rng.Below(2) == 0 && !bytes.empty()) bytes[0] %= 45;
    SurvivesDecoding(codec, bytes, static_cast<size_t>(n));
  }
}

}  // namespace
}  // namespace skerry
