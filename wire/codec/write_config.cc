#include "wire/codec/write_config.h"

namespace skerry {
namespace {

void WriteOuterLaw(WriteChecks& checks, const OuterConfig& c, schema::RunConfig::Outer::Builder b) {
  b.setMode(static_cast<uint8_t>(c.mode));
  b.setFragments(c.fragments);
  b.setMomentumClip(checks.Finite(c.momentum_clip, "momentum_clip"));
  b.setGap(checks.Finite(c.gap, "gap"));
  b.setRobust(static_cast<uint8_t>(c.robust));
  b.setRobustLimit(checks.Finite(c.robust_limit, "robust_limit"));
  b.setRobustTrim(checks.Finite(c.robust_trim, "robust_trim"));
  b.setBudget(static_cast<uint8_t>(c.budget));
  b.setBudgetBits(checks.Finite(c.budget_bits, "budget_bits"));
  b.setBudgetRounds(c.budget_rounds);
  b.setAbsences(c.absences);
  b.setSumChecks(checks.Finite(c.sum_checks, "sum_checks"));
}

void WriteTraining(WriteChecks& checks, const RunConfig& c, schema::RunConfig::Builder b) {
  auto inner = b.initInner();
  inner.setOptimizer(static_cast<uint8_t>(c.inner.optimizer));
  inner.setLearningRate(checks.Finite(c.inner.learning_rate, "learning_rate"));
  inner.setMinLearningRate(checks.Finite(c.inner.min_learning_rate, "min_learning_rate"));
  inner.setWarmupSteps(c.inner.warmup_steps);
  inner.setBeta1(checks.Finite(c.inner.beta1, "beta1"));
  inner.setBeta2(checks.Finite(c.inner.beta2, "beta2"));
  inner.setEpsilon(checks.Finite(c.inner.epsilon, "epsilon"));
  inner.setWeightDecay(checks.Finite(c.inner.weight_decay, "weight_decay"));
  inner.setClipNorm(checks.Finite(c.inner.clip_norm, "clip_norm"));
  inner.setCompute(static_cast<uint8_t>(c.inner.compute));
  inner.setZLoss(checks.Finite(c.inner.z_loss, "z_loss"));
  auto outer = b.initOuter();
  outer.setInnerSteps(c.outer.inner_steps);
  outer.setOverlapSteps(c.outer.overlap_steps);
  outer.setLearningRate(checks.Finite(c.outer.learning_rate, "outer learning_rate"));
  outer.setMomentum(checks.Finite(c.outer.momentum, "outer momentum"));
  outer.setCodec(static_cast<uint8_t>(c.outer.codec));
  outer.setResidual(static_cast<uint8_t>(c.outer.residual));
  outer.setTier(static_cast<uint8_t>(c.outer.tier));
  outer.setReduce(static_cast<uint8_t>(c.outer.reduce));
  outer.setDownCodec(static_cast<uint8_t>(c.outer.down_codec));
  WriteOuterLaw(checks, c.outer, outer);
  auto pipeline = b.initPipeline();
  pipeline.setStages(c.pipeline.stages);
  pipeline.setSkipRatio(checks.Finite(c.pipeline.skip_ratio, "skip_ratio"));
  pipeline.setSwaps(c.pipeline.swaps);
  pipeline.setMicrobatchesPerStep(c.pipeline.microbatches_per_step);
  pipeline.setSequencesPerMicrobatch(c.pipeline.sequences_per_microbatch);
  pipeline.setInFlight(c.pipeline.in_flight);
  pipeline.setSequencesPerStep(c.pipeline.sequences_per_step);
  pipeline.setSlowLinkCodec(static_cast<uint8_t>(c.pipeline.slow_link_codec));
  pipeline.setDetours(c.pipeline.detours);
  pipeline.setRecompute(static_cast<uint8_t>(c.pipeline.recompute));
  pipeline.setOffload(static_cast<uint8_t>(c.pipeline.offload));
  pipeline.setOffloadActivations(static_cast<uint8_t>(c.pipeline.offload_activations));
  pipeline.setWorkChecks(checks.Finite(c.pipeline.work_checks, "work_checks"));
}

}  // namespace

void WriteConfig(WriteChecks& checks, const RunConfig& c, schema::RunConfig::Builder b) {
  b.setName(checks.Text(c.name, "name"));
  b.setSeed(c.seed);
  b.setSteps(c.steps);
  b.setNodesMin(c.nodes_min);
  b.setNodesMax(c.nodes_max);
  b.setHeartbeatS(checks.Finite(c.heartbeat_s, "heartbeat_s"));
  b.setNodeSilentS(checks.Finite(c.node_silent_s, "node_silent_s"));
  b.setReplanS(checks.Finite(c.replan_s, "replan_s"));
  b.setCheckpointEveryRounds(c.checkpoint.every_rounds);
  b.setCheckpointKeep(c.checkpoint.keep);
  b.setCheckpointLeastS(c.checkpoint.least_s);
  b.setLostStage(static_cast<uint8_t>(c.checkpoint.lost_stage));
  b.setDataDir(checks.Text(c.data_dir, "data_dir"));
  if (c.cluster != ClusterConfig()) {
    auto cluster = b.initCluster();
    cluster.setGroups(checks.Text(c.cluster.groups, "groups"));
    cluster.setRateMin(checks.Finite(c.cluster.rate_mbps_min, "rate_mbps_min"));
    cluster.setRttMax(checks.Finite(c.cluster.rtt_ms_max, "rtt_ms_max"));
    cluster.setOverlapSteps(static_cast<uint8_t>(c.cluster.overlap_steps));
  }
  auto model = b.initModel();
  model.setVocab(c.model.vocab);
  model.setHidden(c.model.hidden);
  // Who does not know of ladders must not train another model: it refuses such numbers of layers.
  model.setLayers(c.model.ladder > 0 ? -c.model.layers : c.model.layers);
  model.setLadder(c.model.ladder);
  model.setHeads(c.model.heads);
  model.setKvHeads(c.model.kv_heads);
  model.setFfn(c.model.ffn);
  model.setContext(c.model.context);
  model.setRopeBase(checks.Finite(c.model.rope_base, "rope_base"));
  model.setNormEpsilon(checks.Finite(c.model.norm_epsilon, "norm_epsilon"));
  model.setTiedHead(c.model.tied_head);
  model.setQkvBias(c.model.qkv_bias);
  model.setRopeScaling(static_cast<uint8_t>(c.model.rope_scaling));
  model.setRopeFactor(checks.Finite(c.model.rope_factor, "rope_factor"));
  model.setRopeLowFrequency(checks.Finite(c.model.rope_low_frequency, "rope_low_frequency"));
  model.setRopeHighFrequency(checks.Finite(c.model.rope_high_frequency, "rope_high_frequency"));
  model.setRopeOriginalContext(c.model.rope_original_context);
  model.setPositions(c.model.positions);
  WriteTraining(checks, c, b);
}

}  // namespace skerry
