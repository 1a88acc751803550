// How far what a replica sent is from what another makes of the same microbatch.
//
// Replicas of a stage differ between rounds, so equal bits cannot be asked for. What a stage adds
// to the residual stream (out − in, and d_in − d_out on the way back) is compared, as the stream
// itself would drown a stage that adds nothing: 0 is the same, 1 who passes on what came, 2 the
// opposite; √2 is something unrelated of the same size.
#pragma once

#include <array>

#include "pipeline/exec/stage_work.h"
#include "wire/message/work_message.h"

namespace skerry {

struct WorkDistance {
  float forward = 0, backward = 0;
};

// Payloads as they travelled, by WorkPart, of the sizes that IsBoundary asks for.
using WorkParts = std::array<PassInput, kWorkParts>;

// On the device thread. What is not finite, or too far to tell, is at kWorkDistanceMax.
// InvalidArgument: one cannot be decoded.
inline constexpr float kWorkDistanceMax = 1e6f;
absl::StatusOr<WorkDistance> MeasureWork(StageWork& work, const WorkParts& parts);

}  // namespace skerry
