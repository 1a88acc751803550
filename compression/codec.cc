#include "compression/codec.h"

#include <array>
#include <bit>
#include <cmath>

#include "common/check.h"
#include "common/status.h"
#include "compression/bf16.h"
#include "compression/block_int4.h"
#include "compression/block_int8.h"
#include "compression/fixed_point.h"
#include "compression/loops.h"
#include "compression/plain.h"
#include "compression/sign.h"
#include "compression/ternary.h"
#include "compression/top_k.h"

namespace skerry {
namespace {

absl::Status DescribeVoid(const DeltaSource& source) {
  for (size_t i = 0; i < source.base.size(); ++i) {
    float u = source.base[i];
    if (!source.theta.empty()) u -= source.theta[i];
    if (!source.residual.empty()) u += source.residual[i];
    if (!source.halves.empty()) u += std::bit_cast<float>(uint32_t{source.halves[i]} << 16);
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
  SKERRY_CHECK(source.halves.empty() || (source.halves.size() == n && source.residual.empty()));
  out->resize(static_cast<size_t>(EncodedSizeMax(static_cast<int64_t>(n))));
  const std::optional<size_t> size = EncodeInto(source, *out);
  if (!size) return DescribeVoid(source);
  out->resize(*size);
  return absl::OkStatus();
}

absl::Status Codec::CheckSize(std::span<const uint8_t> bytes, int64_t n) const {
  const auto size = static_cast<int64_t>(bytes.size());
  if (size >= EncodedSizeMin(n) && size <= EncodedSizeMax(n)) return absl::OkStatus();
  return InvalidArgument("delta of %d values: want %d to %d bytes, got %d", n, EncodedSizeMin(n),
                         EncodedSizeMax(n), size);
}

absl::Status Codec::Check(std::span<const uint8_t> bytes, int64_t n) const {
  SKERRY_RETURN_IF_ERROR(CheckSize(bytes, n));
  return CheckContent(bytes, n);
}

absl::Status Codec::DecodeAccumulate(std::span<const uint8_t> bytes, int64_t weight,
                                     std::span<int64_t> sum) const {
  const auto n = static_cast<int64_t>(sum.size());
  if (weight < 1 || weight > kWeightTotalMax) {
    return InvalidArgument("weight of a delta: want 1 to %d, got %d", kWeightTotalMax, weight);
  }
  SKERRY_RETURN_IF_ERROR(CheckSize(bytes, n));
  return CheckAndAccumulate(bytes, weight, sum);
}

absl::Status Codec::CheckAndAccumulate(std::span<const uint8_t> bytes, int64_t weight,
                                       std::span<int64_t> sum) const {
  const auto n = static_cast<int64_t>(sum.size());
  SKERRY_RETURN_IF_ERROR(CheckContent(bytes, n));
  AccumulateRange(bytes, n, 0, weight, sum);
  return absl::OkStatus();
}

absl::Status Codec::Decode(std::span<const uint8_t> bytes, std::span<float> values) const {
  const auto n = static_cast<int64_t>(values.size());
  SKERRY_RETURN_IF_ERROR(Check(bytes, n));
  DecodeRange(bytes, n, 0, values);
  return absl::OkStatus();
}

std::unique_ptr<const Codec> MakeCodec(DeltaCodec kind, const CodecLoops& loops) {
  switch (kind) {
    case DeltaCodec::kNone:
      return std::make_unique<PlainCodec>(loops);
    case DeltaCodec::kInt8:
      return std::make_unique<BlockInt8Codec>(loops);
    case DeltaCodec::kBf16:
      return std::make_unique<Bf16Codec>(loops);
    case DeltaCodec::kInt4:
      return std::make_unique<BlockInt4Codec>(loops);
    case DeltaCodec::kSign:
      return std::make_unique<SignCodec>(loops);
    case DeltaCodec::kTernary:
      return std::make_unique<TernaryCodec>(loops);
    case DeltaCodec::kTopK:
      return std::make_unique<TopKCodec>(loops);
    case DeltaCodec::kLowRank:
      break;
  }
  SKERRY_CHECK(false, "a codec of any number of values");
  return nullptr;
}

const Codec& CodecFor(DeltaCodec kind) {
  static const auto codecs = [] {
    std::array<std::unique_ptr<const Codec>, static_cast<size_t>(kLastShapeless) + 1> all;
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = MakeCodec(static_cast<DeltaCodec>(i), BestLoops());
    }
    return all;
  }();
  return *codecs.at(static_cast<size_t>(kind));
}

}  // namespace skerry
