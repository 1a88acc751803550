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
  if (!stage.cohorts.empty()) {
    auto cohorts =
        b.initCohorts(checks.Count(stage.cohorts, limits::kReplicasMax, "cohorts of a stage"));
    for (unsigned j = 0; j < cohorts.size(); ++j) cohorts.set(j, stage.cohorts[j]);
  }
}

void WriteDevice(WriteChecks& checks, const DeviceProfile& device,
                 schema::DeviceProfile::Builder b) {
  b.setName(checks.Text(device.name, "device name"));
  b.setNumericProfile(checks.Text(device.numeric_profile, "numeric profile"));
  b.setGflops(checks.Finite(device.gflops, "gflops"));
  b.setMemoryBytes(device.memory_bytes);
  b.setBf16Gflops(checks.Finite(device.bf16_gflops, "bf16 gflops"));
  b.setHostBytes(device.host_bytes);
  b.setSpillBytes(device.spill_bytes);
  b.setSpillRate(checks.Finite(device.spill_bytes_per_s, "rate of the disk"));
  b.setSpreads(device.spreads);
  if (!device.network.empty()) b.setNetwork(checks.Text(device.network, "network card"));
}

void WriteSettings(const PlannedSettings& s, schema::Settings::Builder b) {
  b.setInnerSteps(s.inner_steps);
  b.setOverlapSteps(s.overlap_steps);
  b.setHasCodec(s.has_codec);
  b.setCodec(static_cast<uint8_t>(s.codec));
  b.setSequencesPerMicrobatch(s.sequences_per_microbatch);
  b.setInFlight(s.in_flight);
  b.setSpreads(s.spreads);
  b.setRoundS(s.round_s);
  b.setStepS(s.step_s);
}

}  // namespace skerry
