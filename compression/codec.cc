#include "compression/codec.h"

#include <cmath>

#include "common/check.h"
#include "common/status.h"
#include "compression/block_int8.h"
#include "compression/fixed_point.h"
#include "compression/plain.h"

namespace skerry {
namespace {

absl::Status DescribeVoid(const DeltaSource& source) {
  for (size_t i = 0; i < source.base.size(); ++i) {
    float u = source.base[i];
    if (!source.theta.empty()) u -= source.theta[i];
    if (!source.residual.empty()) u += source.residual[i];
    if (!(std::fabs(u) <= kMagnitudeMax)) {
      return InvalidArgument("delta is void: value %d is %g, want a finite one of at most %g", i, u,
                             kMagnitudeMax);
    }
  }
  return InvalidArgument("delta is void");
}

}  // namespace

absl::Status Codec::Encode(std::span<const float> u, Bytes* out) const {
  return EncodeDelta({.base = u}, out);
}

absl::Status Codec::EncodeDelta(const DeltaSource& source, Bytes* out) const {
  const size_t n = source.base.size();
  SKERRY_CHECK(source.theta.empty() || source.theta.size() == n);
  SKERRY_CHECK(source.residual.empty() || source.residual.size() == n);
  out->resize(static_cast<size_t>(EncodedSize(static_cast<int64_t>(n))));
  return EncodeInto(source, *out) ? absl::OkStatus() : DescribeVoid(source);
}

absl::Status Codec::DecodeAccumulate(std::span<const uint8_t> bytes, int64_t weight,
                                     std::span<int64_t> sum) const {
  const auto n = static_cast<int64_t>(sum.size());
  if (weight < 1 || weight > kWeightTotalMax) {
    return InvalidArgument("weight of a delta: want 1 to %d, got %d", kWeightTotalMax, weight);
  }
  SKERRY_RETURN_IF_ERROR(Check(bytes, n));
  AccumulateRange(bytes, n, 0, weight, sum);
  return absl::OkStatus();
}

absl::Status Codec::Decode(std::span<const uint8_t> bytes, std::span<float> values) const {
  const auto n = static_cast<int64_t>(values.size());
  SKERRY_RETURN_IF_ERROR(Check(bytes, n));
  DecodeRange(bytes, n, 0, values);
  return absl::OkStatus();
}

const Codec& CodecFor(DeltaCodec kind) {
  static const PlainCodec plain;
  static const BlockInt8Codec int8;
  if (kind == DeltaCodec::kNone) return plain;
  SKERRY_CHECK(kind == DeltaCodec::kInt8, "a codec of this build");
  return int8;
}

}  // namespace skerry
