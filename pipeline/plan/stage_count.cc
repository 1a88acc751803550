#include "pipeline/plan/stage_count.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/status.h"
#include "pipeline/plan/partition.h"

namespace skerry {
namespace {

struct Tried {
  BatchShape shape;
  double step_s = 0;
};

absl::StatusOr<Tried> Try(const RunConfig& config, int32_t stages, const NominalFleet& fleet) {
  RunConfig with = config;
  with.pipeline.stages = stages;
  SKERRY_ASSIGN_OR_RETURN(BatchShape shape, ChooseBatch(with, fleet));
  SKERRY_ASSIGN_OR_RETURN(const double step_s, NominalStepSeconds(shape.config, fleet));
  return Tried{std::move(shape), step_s};
}

}  // namespace

absl::StatusOr<BatchShape> ChooseShape(const RunConfig& config, const NominalFleet& fleet) {
  if (config.pipeline.stages > 0) return ChooseBatch(config, fleet);
  const auto nodes = static_cast<int32_t>(fleet.gflops.size());
  const int32_t formula = AutoStages(nodes, config.model.stages_max());
  const int32_t replicas = std::max(kReplicasMax, (nodes + formula - 1) / formula);
  const int32_t least = std::max(
      {std::min(kStagesMin, formula), (formula + 1) / 2, (nodes + replicas - 1) / replicas});
  const int32_t most = std::min({2 * formula, nodes, config.model.stages_max()});
  const auto usual = Try(config, formula, fleet);
  std::optional<Tried> best;
  for (int32_t stages = least; stages <= most; ++stages) {
    auto tried = stages == formula ? usual : Try(config, stages, fleet);
    if (tried.ok() && (!best || tried->step_s < best->step_s)) best = *std::move(tried);
  }
  // Nothing near the formula fits: any number, or the error that says what is missing.
  if (!best) return ChooseBatch(config, fleet);
  if (usual.ok() && usual->step_s <= best->step_s * kWorthAnother) best = *usual;
  const int32_t chosen = best->shape.config.pipeline.stages;
  if (chosen != formula) {
    best->shape.why += absl::StrFormat(
        "%d stages instead of %d: %.3f s on the nominal fleet instead of %s\n", chosen, formula,
        best->step_s,
        usual.ok() ? absl::StrFormat("%.3f s", usual->step_s) : "not fitting the memory");
  }
  return std::move(best->shape);
}

}  // namespace skerry
