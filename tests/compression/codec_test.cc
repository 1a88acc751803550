// Laws of the codecs: exact sizes, idempotence, error bounds, exact order-free sums, totality.
#include "compression/codec.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "compression/fixed_point.h"
#include "tests/compression/sample_values.h"

namespace skerry {
namespace {

Bytes MustEncode(const Codec& codec, std::span<const float> u) {
  Bytes out;
  REQUIRE(codec.Encode(u, &out).ok());
  return out;
}

std::vector<float> MustDecode(const Codec& codec, const Bytes& bytes, size_t n) {
  std::vector<float> values(n, 77.0f);
  REQUIRE(codec.Decode(bytes, values).ok());
  return values;
}

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

const DeltaCodec kCodecs[] = {DeltaCodec::kNone, DeltaCodec::kInt8};

TEST_CASE("Codec: a message has exactly the announced size", "[compression]") {
  for (const int64_t n : {0, 1, 255, 256, 257, 1024, 5000}) {
    CAPTURE(n);
    const auto u = HeavyTail(static_cast<size_t>(n), 3);
    CHECK(CodecFor(DeltaCodec::kNone).EncodedSize(n) == 4 * n);
    CHECK(CodecFor(DeltaCodec::kInt8).EncodedSize(n) == n + (n + 255) / 256);
    for (const DeltaCodec kind : kCodecs) {
      const Codec& codec = CodecFor(kind);
      CHECK(static_cast<int64_t>(MustEncode(codec, u).size()) == codec.EncodedSize(n));
    }
  }
}

TEST_CASE("Codec: what was decoded encodes to itself", "[compression]") {
  const Codec& codec = CodecFor(GENERATE(DeltaCodec::kNone, DeltaCodec::kInt8));
  auto cases = AwkwardButValid();
  for (uint64_t seed = 0; seed < 20; ++seed) cases.push_back(HeavyTail(700 + seed, seed));
  for (const auto& u : cases) {
    const Bytes message = MustEncode(codec, u);
    const auto decoded = MustDecode(codec, message, u.size());
    CHECK(MustEncode(codec, decoded) == message);
  }
}

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

TEST_CASE("Codec: a sum counts units and forgets the order", "[compression]") {
  const Codec& codec = CodecFor(GENERATE(DeltaCodec::kNone, DeltaCodec::kInt8));
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

TEST_CASE("Codec: the largest sum of the largest values does not overflow", "[compression]") {
  constexpr double kWorst = 0x1p61;
  for (const uint8_t k : {uint8_t{127}, uint8_t{0x80}}) {
    std::vector<int64_t> sum(1, 0);
    REQUIRE(CodecFor(DeltaCodec::kInt8).DecodeAccumulate(Bytes{44, k}, kWeightTotalMax, sum).ok());
    CHECK(std::fabs(static_cast<double>(sum[0])) <= kWorst);
    CHECK((sum[0] > 0) == (k == 127));
  }
  std::vector<int64_t> sum(1, 0);
  const Codec& none = CodecFor(DeltaCodec::kNone);
  const Bytes worst = MustEncode(none, std::vector{kMagnitudeMax});
  REQUIRE(none.DecodeAccumulate(worst, kWeightTotalMax, sum).ok());
  CHECK(static_cast<double>(sum[0]) == double{kMagnitudeMax} * 0x1p50);
}

TEST_CASE("Codec: tiles of a message are the message", "[compression]") {
  const Codec& codec = CodecFor(GENERATE(DeltaCodec::kNone, DeltaCodec::kInt8));
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
  const Codec& codec = CodecFor(GENERATE(DeltaCodec::kNone, DeltaCodec::kInt8));
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
}

TEST_CASE("Codec: a value that is not finite or too large voids the message",
          "[compression][error]") {
  const Codec& codec = CodecFor(GENERATE(DeltaCodec::kNone, DeltaCodec::kInt8));
  const float bad = GENERATE(NAN, -NAN, INFINITY, -INFINITY, 2033.0f, -1e30f);
  const size_t at = GENERATE(0u, 255u, 256u, 999u);
  auto u = HeavyTail(1000, 4);
  u[at] = bad;
  Bytes out;

  const absl::Status status = codec.Encode(u, &out);

  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()).find("value " + std::to_string(at)) != std::string::npos);
}

TEST_CASE("Codec: a bad message is refused and changes nothing", "[compression][error]") {
  const Codec& codec = CodecFor(GENERATE(DeltaCodec::kNone, DeltaCodec::kInt8));
  constexpr size_t kSize = 600;
  const Bytes good = MustEncode(codec, HeavyTail(kSize, 8));
  Bytes truncated(good.begin(), good.end() - 1), extended = good, poisoned = good;
  extended.push_back(0);
  // int8: the third block's scale leaves the window; none: the first value becomes NaN.
  if (&codec == &CodecFor(DeltaCodec::kInt8)) {
    poisoned[2] = 45;
  } else {
    poisoned[3] = 0x7f, poisoned[2] = 0xc0;
  }
  for (const Bytes& bad : {truncated, extended, poisoned, Bytes{}}) {
    std::vector<int64_t> sum(kSize, 5);
    std::vector<float> values(kSize, 5.0f);
    CHECK(absl::IsInvalidArgument(codec.DecodeAccumulate(bad, 1, sum)));
    CHECK(absl::IsInvalidArgument(codec.Decode(bad, values)));
    CHECK(sum == std::vector<int64_t>(kSize, 5));
    CHECK(values == std::vector<float>(kSize, 5.0f));
  }
  std::vector<int64_t> sum(kSize, 5);
  CHECK(absl::IsInvalidArgument(codec.DecodeAccumulate(good, 0, sum)));
  CHECK(absl::IsInvalidArgument(codec.DecodeAccumulate(good, kWeightTotalMax + 1, sum)));
  CHECK(sum == std::vector<int64_t>(kSize, 5));
}

TEST_CASE("Codec: arbitrary bytes are refused or decode to finite values on the grid",
          "[compression][fuzz]") {
  const Codec& codec = CodecFor(GENERATE(DeltaCodec::kNone, DeltaCodec::kInt8));
  int accepted = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Rng rng(seed, "fuzz");
    const auto n = static_cast<int64_t>(rng.Below(40));
    // Mostly the right length and small numbers, so that many survive the check.
    Bytes bytes(static_cast<size_t>(codec.EncodedSize(n)) + (rng.Below(10) == 0 ? 1 : 0));
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(rng.Next());
    if (rng.Below(2) == 0 && !bytes.empty()) bytes[0] %= 45;
    if (n > 0 && &codec == &CodecFor(DeltaCodec::kNone) && rng.Below(2) == 0) {
      for (size_t i = 3; i < bytes.size(); i += 4) bytes[i] = static_cast<uint8_t>(bytes[i] % 0x44);
    }
    std::vector<float> values(static_cast<size_t>(n), NAN);
    std::vector<int64_t> sum(static_cast<size_t>(n), 0);
    const bool ok = codec.Decode(bytes, values).ok();
    REQUIRE(codec.DecodeAccumulate(bytes, 1, sum).ok() == ok);
    if (!ok) continue;
    ++accepted;
    for (size_t i = 0; i < values.size(); ++i) {
      REQUIRE(std::isfinite(values[i]));
      REQUIRE(static_cast<double>(sum[i]) == static_cast<double>(values[i]) * 0x1p40);
    }
  }
  CHECK(accepted > 500);
}

}  // namespace
}  // namespace skerry
