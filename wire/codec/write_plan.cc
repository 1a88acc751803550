#include "wire/codec/write_plan.h"

#include "wire/codec/id_words.h"

namespace skerry {

void WriteStage(WriteChecks& checks, const StageAssignment& stage,
                schema::StageAssignment::Builder b) {
  b.setFirstLayer(stage.first_layer);
  b.setLastLayer(stage.last_layer);
  auto replicas =
      b.initReplicas(checks.Count(stage.replicas, limits::kReplicasMax, "replicas of a stage"));
  for (unsigned j = 0; j < replicas.size(); ++j) WriteId(stage.replicas[j], replicas[j]);
  if (!stage.shares.empty()) {
    auto shares =
        b.initShares(checks.Count(stage.shares, limits::kReplicasMax, "shares of a stage"));
    for (unsigned j = 0; j < shares.size(); ++j) shares.set(j, stage.shares[j]);
  }
  if (!stage.remade.empty()) {
    auto remade = b.initRemade(checks.Count(stage.remade, limits::kRemadeMax, "layers remade"));
    for (unsigned j = 0; j < remade.size(); ++j) remade.set(j, stage.remade[j]);
  }
}

}  // namespace skerry
