#include "pipeline/exec/stage_work.h"

#include <utility>

#include "compression/boundary_code.h"

namespace skerry {

int64_t StageWork::EncodedBoundaryBytes(DeltaCodec codec) const {
  return BoundaryCodeSize(codec, boundary_bytes() / int64_t{sizeof(float)});
}

absl::StatusOr<Payload> StageWork::EncodeBoundary(DeltaCodec codec, const Payload& values) const {
  if (!values.IsWhole()) return MakeHollowPayload(*values, EncodedBoundaryBytes(codec));
  const std::span<const float> floats(reinterpret_cast<const float*>(values->data()),
                                      values->size() / sizeof(float));
  Bytes encoded;
  SKERRY_RETURN_IF_ERROR(EncodeBoundaryValues(codec, floats, &encoded));
  return MakePayload(std::move(encoded));
}

absl::StatusOr<Payload> StageWork::DecodeBoundary(DeltaCodec codec, const Payload& encoded) const {
  if (!encoded.IsWhole()) return MakeHollowPayload(*encoded, boundary_bytes());
  Bytes values(static_cast<size_t>(boundary_bytes()));
  const std::span<float> floats(reinterpret_cast<float*>(values.data()),
                                values.size() / sizeof(float));
  SKERRY_RETURN_IF_ERROR(DecodeBoundaryValues(codec, View(encoded), floats));
  return MakePayload(std::move(values));
}

bool IsBoundary(const StageWork& work, const PassInput& input) {
  const int64_t size = SizeOf(input.values);
  if (input.codec == DeltaCodec::kNone) return size == work.boundary_bytes();
  const bool is_known = input.codec == DeltaCodec::kInt8 || input.codec == DeltaCodec::kBf16;
  return is_known && size == work.EncodedBoundaryBytes(input.codec);
}

WorkResult RunPass(const StageWork& work, const PassInput& input, DeltaCodec send_as,
                   const std::function<WorkResult(const Payload&)>& pass) {
  Payload values = input.values;
  if (input.codec != DeltaCodec::kNone) {
    absl::StatusOr<Payload> decoded = work.DecodeBoundary(input.codec, values);
    if (!decoded.ok()) {
      WorkResult refused;
      refused.is_refused = true;
      return refused;
    }
    values = *std::move(decoded);
  }
  WorkResult result = pass(values);
  if (send_as == DeltaCodec::kNone || !result.status.ok()) return result;
  // A model that diverges says so in full precision.
  absl::StatusOr<Payload> encoded = work.EncodeBoundary(send_as, result.values);
  if (!encoded.ok()) return result;
  result.values = *std::move(encoded);
  result.codec = send_as;
  return result;
}

}  // namespace skerry
