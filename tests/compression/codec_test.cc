// Laws of the codecs: exact sizes, idempotence, error bounds, exact order-free sums, totality.
#include "compression/codec.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "compression/fixed_point.h"
#include "tests/compression/every_codec.h"

namespace skerry {
namespace {

TEST_CASE("Codec: a message has exactly the announced size or lies within the bounds",
          "[compression]") {
  const Codec& codec = CodecFor(GENERATE(from_range(EveryCodec())));
  for (const int64_t n : {0, 1, 7, 255, 256, 257, 1024, 4095, 4097, 5000}) {
    CAPTURE(n);
    for (const auto& u : {HeavyTail(static_cast<size_t>(n), 3), Gaussian(static_cast<size_t>(n), 4),
                          std::vector<float>(static_cast<size_t>(n), 0.25f)}) {
      const auto size = static_cast<int64_t>(MustEncode(codec, u).size());
      CHECK(size >= codec.EncodedSizeMin(n));
      CHECK(size <= codec.EncodedSizeMax(n));
    }
  }
}

TEST_CASE("Codec: fixed lengths are what their formats say", "[compression]") {
  const auto fixed = [](DeltaCodec kind, int64_t n) {
    const Codec& codec = CodecFor(kind);
    CHECK(codec.EncodedSizeMin(n) == codec.EncodedSizeMax(n));
    return codec.EncodedSizeMax(n);
  };
  CHECK(fixed(DeltaCodec::kNone, 257) == 4 * 257);
  CHECK(fixed(DeltaCodec::kBf16, 257) == 2 * 257);
  CHECK(fixed(DeltaCodec::kInt8, 257) == 257 + 2);
  CHECK(fixed(DeltaCodec::kInt4, 257) == 129 + 2);
  CHECK(fixed(DeltaCodec::kSign, 257) == 33 + 2);
}

TEST_CASE("Codec: what was decoded encodes to itself", "[compression]") {
  const Codec& codec = CodecFor(GENERATE(from_range(EveryCodec())));
  auto cases = AwkwardButValid();
  for (uint64_t seed = 0; seed < 20; ++seed) cases.push_back(HeavyTail(700 + seed, seed));
  for (const auto& u : cases) {
    const Bytes message = MustEncode(codec, u);
    const auto decoded = MustDecode(codec, message, u.size());
    CHECK(MustEncode(codec, decoded) == message);
  }
}

TEST_CASE("Codec: a sum counts units and forgets the order", "[compression]") {
  const Codec& codec = CodecFor(GENERATE(from_range(EveryCodec())));
  constexpr size_t kSize = 3000;
  std::vector<Bytes> messages;
  std::vector<int64_t> want(kSize, 0);
  for (uint64_t r = 0; r < 5; ++r) {
    messages.push_back(MustEncode(codec, HeavyTail(kSize, 100 + r)));
    const auto decoded = MustDecode(codec, messages.back(), kSize);
    for (size_t i = 0; i < kSize; ++i) {
      const double units = static_cast<double>(decoded[i]) * 0x1p40;
      REQUIRE(units == std::nearbyint(units));
      want[i] += static_cast<int64_t>(units) * static_cast<int64_t>(r + 1);
    }
  }
  std::vector<size_t> order = {0, 1, 2, 3, 4};
  do {
    std::vector<int64_t> sum(kSize, 0);
    for (const size_t r : order) {
      REQUIRE(codec.DecodeAccumulate(messages[r], static_cast<int64_t>(r + 1), sum).ok());
    }
    REQUIRE(sum == want);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("Codec: tiles of a message are the message", "[compression]") {
  const Codec& codec = CodecFor(GENERATE(from_range(EveryCodec())));
  constexpr int64_t kSize = 1500;
  const Bytes message = MustEncode(codec, HeavyTail(kSize, 9));
  const auto whole = MustDecode(codec, message, kSize);
  std::vector<int64_t> whole_sum(kSize, 0);
  REQUIRE(codec.DecodeAccumulate(message, 3, whole_sum).ok());

  std::vector<float> tiled(kSize);
  std::vector<int64_t> tiled_sum(kSize, 0);
  for (size_t first = 0; first < kSize; first += 512) {
    const size_t count = std::min<size_t>(512, kSize - first);
    const auto start = static_cast<int64_t>(first);
    codec.DecodeRange(message, kSize, start, std::span(tiled).subspan(first, count));
    codec.AccumulateRange(message, kSize, start, 3, std::span(tiled_sum).subspan(first, count));
  }

  CHECK(SameBits(tiled, whole));
  CHECK(tiled_sum == whole_sum);
}

TEST_CASE("Codec: the fused difference encodes what the parts would", "[compression]") {
  const Codec& codec = CodecFor(GENERATE(from_range(EveryCodec())));
  const auto base = HeavyTail(1000, 1), theta = HeavyTail(1000, 2), residual = HeavyTail(1000, 3);
  std::vector<float> difference(1000), with_residual(1000);
  for (size_t i = 0; i < 1000; ++i) {
    difference[i] = base[i] - theta[i];
    with_residual[i] = difference[i] + residual[i];
  }
  Bytes fused;
  REQUIRE(codec.EncodeDelta({.base = base, .theta = theta}, &fused).ok());
  CHECK(fused == MustEncode(codec, difference));
  REQUIRE(codec.EncodeDelta({.base = base, .theta = theta, .residual = residual}, &fused).ok());
  CHECK(fused == MustEncode(codec, with_residual));
  const auto halves = Halves(residual);
  const auto rest = Widened(halves);
  for (size_t i = 0; i < 1000; ++i) with_residual[i] = difference[i] + rest[i];
  REQUIRE(codec.EncodeDelta({.base = base, .theta = theta, .halves = halves}, &fused).ok());
  CHECK(fused == MustEncode(codec, with_residual));
}

TEST_CASE("Codec: a value that is not finite or too large voids the message",
          "[compression][error]") {
  const Codec& codec = CodecFor(GENERATE(from_range(EveryCodec())));
  const float bad = GENERATE(NAN, -NAN, INFINITY, -INFINITY, 2033.0f, -1e30f);
  const size_t at = GENERATE(0u, 255u, 256u, 999u);
  auto u = HeavyTail(1000, 4);
  u[at] = bad;
  Bytes out;

  const absl::Status status = codec.Encode(u, &out);

  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()).find("value " + std::to_string(at)) != std::string::npos);
}

}  // namespace
}  // namespace skerry
