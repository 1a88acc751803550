#include "compression/boundary_code.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "common/rng.h"

namespace skerry {
namespace {

std::vector<float> Values(size_t n, float size, uint64_t seed = 1) {
  Rng rng(seed, "values");
  std::vector<float> values(n);
  for (float& value : values) value = size * static_cast<float>(2 * rng.Uniform() - 1);
  return values;
}

std::vector<float> ThereAndBack(DeltaCodec codec, const std::vector<float>& values) {
  Bytes bytes;
  REQUIRE(EncodeBoundaryValues(codec, values, &bytes).ok());
  CHECK(static_cast<int64_t>(bytes.size()) == BoundaryCodeSize(codec, int64_t(values.size())));
  std::vector<float> back(values.size());
  REQUIRE(DecodeBoundaryValues(codec, bytes, back).ok());
  return back;
}

TEST_CASE("Boundary code: sizes are those of the codec and one byte", "[compression]") {
  CHECK(BoundaryCodeSize(DeltaCodec::kBf16, 1000) == 2001);
  CHECK(BoundaryCodeSize(DeltaCodec::kInt8, 1024) == 1024 + 4 + 1);
}

TEST_CASE("Boundary code: tiny gradients and huge activations keep their precision",
          "[compression]") {
  const float size = GENERATE(1e-36f, 1e-12f, 1.0f, 3e4f, 1e37f);
  const auto values = Values(1000, size);
  const auto bf16 = ThereAndBack(DeltaCodec::kBf16, values);
  const auto int8 = ThereAndBack(DeltaCodec::kInt8, values);
  for (size_t i = 0; i < values.size(); ++i) {
    CHECK(std::fabs(bf16[i] - values[i]) <= std::ldexp(std::fabs(values[i]), -8) + size * 1e-9f);
    CHECK(std::fabs(int8[i] - values[i]) <= size / 127 * 1.01f);  // half a step of at most 2 / 127
  }
}

TEST_CASE("Boundary code: zeros and an empty payload come back", "[compression]") {
  const DeltaCodec codec = GENERATE(DeltaCodec::kInt8, DeltaCodec::kBf16);
  CHECK(ThereAndBack(codec, std::vector<float>(300)) == std::vector<float>(300));
  CHECK(ThereAndBack(codec, {}).empty());
}

TEST_CASE("Boundary code: what is not finite is not encoded", "[compression][error]") {
  const DeltaCodec codec = GENERATE(DeltaCodec::kInt8, DeltaCodec::kBf16);
  const float bad =
      GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
               -std::numeric_limits<float>::infinity());
  auto values = Values(600, 1);
  values[511] = bad;
  Bytes bytes;
  CHECK(absl::IsInvalidArgument(EncodeBoundaryValues(codec, values, &bytes)));
}

TEST_CASE("Boundary code: other lengths, scales and exponents are refused, nothing is written",
          "[compression][error]") {
  const auto values = Values(600, 1);
  Bytes bytes;
  REQUIRE(EncodeBoundaryValues(DeltaCodec::kInt8, values, &bytes).ok());
  std::vector<float> out(600, 7.0f);
  const auto refused = [&](const Bytes& changed) {
    return absl::IsInvalidArgument(DecodeBoundaryValues(DeltaCodec::kInt8, changed, out)) &&
           out == std::vector<float>(600, 7.0f);
  };
  Bytes longer = bytes;
  longer.push_back(0);
  CHECK(refused(longer));
  CHECK(refused(Bytes(bytes.begin(), bytes.end() - 1)));
  CHECK(refused({}));
  for (const int exponent : {0, 254, 255}) {
    Bytes changed = bytes;
    changed.back() = static_cast<uint8_t>(exponent);
    CHECK(refused(changed));
  }
  Bytes scale = bytes;
  scale[1] = 200;
  CHECK(refused(scale));
  CHECK(absl::IsInvalidArgument(DecodeBoundaryValues(DeltaCodec::kBf16, bytes, out)));
}

}  // namespace
}  // namespace skerry
