#include "model/stage_team.h"

#include "common/check.h"
#include "model/sequence_team.h"
#include "model/tensor_team.h"

namespace skerry {

absl::StatusOr<std::unique_ptr<StageTeam>> StageTeam::Create(const RunConfig& config,
                                                             const TeamStage& stage,
                                                             std::span<const TeamDevice> devices) {
  SKERRY_CHECK(!devices.empty());
  if (stage.split == DeviceSplit::kSequences) return SequenceTeam::Create(config, stage, devices);
  if (devices.size() == 1) return SequenceTeam::Create(config, stage, devices);
  return TensorTeam::Create(config, stage, devices);
}

void StageTeam::SumPart(size_t part, std::span<const MicrobatchKey> keys) {
  if (part + 1 < parts().size()) return;
  for (const MicrobatchKey key : keys) Accumulate(key);
}

}  // namespace skerry
