#include "pipeline/exec/stage_work.h"

#include <cmath>
#include <utility>

#include "compression/boundary_code.h"
#include "pipeline/exec/boundary_tally.h"

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

std::optional<float> StageWork::SizeOfValues(const Payload& values) const {
  if (!values || values->empty() || !values.IsWhole()) return std::nullopt;
  return Log2Rms(View(values));
}

bool IsBoundary(const StageWork& work, const PassInput& input) {
  const int64_t size = SizeOf(input.values);
  if (input.codec == DeltaCodec::kNone) return size == work.boundary_bytes();
  const bool is_known = input.codec == DeltaCodec::kInt8 || input.codec == DeltaCodec::kBf16;
  return is_known && size == work.EncodedBoundaryBytes(input.codec);
}

WorkResult RunPass(const StageWork& work, const PassInput& input, DeltaCodec send_as,
                   const std::function<WorkResult(const Payload&)>& pass) {
  WorkResult opened = OpenPass(work, input);
  if (opened.is_refused) return opened;
  return ClosePass(work, opened, pass(opened.values), send_as);
}

WorkResult OpenPass(const StageWork& work, const PassInput& input) {
  WorkResult opened;
  opened.is_refused = true;
  Payload values = input.values;
  if (input.codec != DeltaCodec::kNone) {
    absl::StatusOr<Payload> decoded = work.DecodeBoundary(input.codec, values);
    if (!decoded.ok()) return opened;
    values = *std::move(decoded);
  }
  opened.log2_came = work.SizeOfValues(values);
  if (opened.log2_came > kBoundaryLog2Max) return opened;
  opened.values = std::move(values);
  opened.is_refused = false;
  return opened;
}

WorkResult ClosePass(const StageWork& work, const WorkResult& opened, WorkResult made,
                     DeltaCodec send_as) {
  if (!made.status.ok()) return made;
  made.log2_came = opened.log2_came;
  made.log2_made = work.SizeOfValues(made.values);
  if (!std::isfinite(made.log2_made.value_or(0)) || !std::isfinite(made.loss)) {
    made.status = FailedPrecondition(
        "what this stage makes of finite values is not finite: training has diverged; a lower "
        "learning rate or a longer warmup helps");
    return made;
  }
  if (send_as == DeltaCodec::kNone) return made;
  // What cannot be encoded is beyond its codec's range, and travels as it is.
  absl::StatusOr<Payload> encoded = work.EncodeBoundary(send_as, made.values);
  if (!encoded.ok()) return made;
  made.values = *std::move(encoded);
  made.codec = send_as;
  return made;
}

}  // namespace skerry
