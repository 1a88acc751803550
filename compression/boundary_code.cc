#include "compression/boundary_code.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "compression/codec.h"

namespace skerry {
namespace {

constexpr int kBias = 127;
// 2^±kExponentMax and their products with what codecs hold are normal numbers.
constexpr int kExponentMax = 126;

// Infinite or not a number if a value is.
float Largest(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) {
    const float magnitude = std::fabs(value);
    if (!(magnitude <= largest)) largest = magnitude;
  }
  return largest;
}

}  // namespace

bool IsBoundaryCodec(DeltaCodec codec) {
  return codec == DeltaCodec::kInt8 || codec == DeltaCodec::kBf16;
}

int64_t BoundaryCodeSize(DeltaCodec codec, int64_t values) {
  SKERRY_CHECK(IsBoundaryCodec(codec));
  return CodecFor(codec).EncodedSizeMax(values) + 1;
}

absl::Status EncodeBoundaryValues(DeltaCodec codec, std::span<const float> values, Bytes* out) {
  SKERRY_CHECK(IsBoundaryCodec(codec));
  const float largest = Largest(values);
  if (!std::isfinite(largest)) return InvalidArgument("activation: a value is not finite");
  int exponent = 0;
  if (largest > 0) exponent = std::clamp(std::ilogb(largest), -kExponentMax, kExponentMax);
  const float down = std::ldexp(1.0f, -exponent);
  std::vector<float> scaled(values.size());
  std::transform(values.begin(), values.end(), scaled.begin(),
                 [down](float value) { return value * down; });
  out->reserve(static_cast<size_t>(BoundaryCodeSize(codec, int64_t(values.size()))));
  SKERRY_RETURN_IF_ERROR(CodecFor(codec).Encode(scaled, out));
  out->push_back(static_cast<uint8_t>(exponent + kBias));
  return absl::OkStatus();
}

absl::Status DecodeBoundaryValues(DeltaCodec codec, std::span<const uint8_t> bytes,
                                  std::span<float> values) {
  const auto want = BoundaryCodeSize(codec, static_cast<int64_t>(values.size()));
  if (static_cast<int64_t>(bytes.size()) != want) {
    return InvalidArgument("activation of %d values: want %d bytes, got %d", values.size(), want,
                           bytes.size());
  }
  const int exponent = int{bytes.back()} - kBias;
  if (std::abs(exponent) > kExponentMax) {
    return InvalidArgument("activation: no payload has exponent byte %d", bytes.back());
  }
  SKERRY_RETURN_IF_ERROR(CodecFor(codec).Decode(bytes.first(bytes.size() - 1), values));
  const float up = std::ldexp(1.0f, exponent);
  for (float& value : values) value *= up;
  return absl::OkStatus();
}

}  // namespace skerry
