// The configuration of a run: plain values, read from run.toml once (wire/config) and sent to every
// node as it is.
//
// Units are in the names. Defaults are those of `skerry-coordinator init`.
#pragma once

#include <cstdint>
#include <string>

namespace skerry {

// What is done to the angles of RoPE so that a model reaches further than it was first trained for
// (kernels/rope_angles.h). On the wire.
enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3, kLast = kLlama3 };

// A LLaMA-family decoder: RMSNorm, RoPE (rotate-half), grouped-query attention, SwiGLU. No biases
// but, as Qwen2 has them, those of q, k and v.
struct TransformerConfig {
  int32_t vocab = 256;
  int32_t hidden = 192;
  int32_t layers = 8;
  int32_t heads = 6;     // hidden % heads == 0, head size even
  int32_t kv_heads = 3;  // heads % kv_heads == 0
  int32_t ffn = 512;
  int32_t context = 256;  // tokens per sequence in training
  float rope_base = 10000.0f;
  float norm_epsilon = 1e-5f;
  bool tied_head = false;  // lm_head shares the embedding's weights
  bool qkv_bias = false;
  RopeScaling rope_scaling = RopeScaling::kNone;
  float rope_factor = 1;              // ≥ 1; kLinear, kLlama3
  float rope_low_frequency = 1;       // kLlama3: in turns over rope_original_context,
  float rope_high_frequency = 4;      // > rope_low_frequency
  int32_t rope_original_context = 0;  // kLlama3: ≥ 1
  int32_t positions = 0;              // what an imported model says it reaches; 0: context
  // Ladder residual (model/ladder_block.h): within so many consecutive layers attention and MLP
  // read the stream without what the one before adds; layers % ladder == 0. 0: as in LLaMA.
  int32_t ladder = 0;

  // What stages are cut at: a multiple of so many layers.
  int32_t layers_together() const { return ladder > 0 ? ladder : 1; }
  int32_t stages_max() const { return layers / layers_together(); }
  int32_t head_size() const { return hidden / heads; }
  bool operator==(const TransformerConfig&) const = default;
};

// kMuon: matrices of layers by their orthogonalised momentum, all else by AdamW.
enum class InnerOptimizer : uint8_t { kAdamW, kSgd, kMuon, kLast = kMuon };
// What products, and what lies between them, are of (kernels/backend.h); parameters, gradients and
// moments are float32 in any case. bf16 where a node has it. On the wire.
enum class InnerCompute : uint8_t { kFloat32, kBfloat16, kLast = kBfloat16 };

struct InnerConfig {
  InnerOptimizer optimizer = InnerOptimizer::kAdamW;
  float learning_rate = 2e-3f;
  float min_learning_rate = 2e-4f;  // cosine decays to this at the last step
  int64_t warmup_steps = 20;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float epsilon = 1e-8f;
  float weight_decay = 0.1f;  // on matrices only
  float clip_norm = 1.0f;     // per block (a layer, the embedding, the head); 0 is off
  InnerCompute compute = InnerCompute::kFloat32;
  float z_loss = 0;  // keeps the head's normaliser near 1 (PaLM, section 5); about 1e-4, 0 is off
  bool operator==(const InnerConfig&) const = default;
};

// Where progress lives that a lossy message left out (notes in localsgd/replica.h).
enum class ResidualPlace : uint8_t { kBuffer, kWeights };
// What a delta travels as (compression/codec.h). On the wire: numbers are never reused.
enum class DeltaCodec : uint8_t {
  kNone,
  kInt8,
  kBf16,
  kInt4,
  kSign,
  kTernary,
  kTopK,
  kLowRank,
  kLast = kLowRank
};
// Those up to this one encode any number of values; kLowRank is made for a stage's matrices.
inline constexpr DeltaCodec kLastShapeless = DeltaCodec::kTopK;

// What a message takes, about, for planning: exact for the codecs of fixed length.
constexpr double DeltaBitsPerValue(DeltaCodec codec) {
  switch (codec) {
    case DeltaCodec::kNone:
      return 32;
    case DeltaCodec::kInt8:
      return 8 + 1 / 32.0;
    case DeltaCodec::kBf16:
      return 16;
    case DeltaCodec::kInt4:
      return 4 + 1 / 32.0;
    case DeltaCodec::kSign:
      return 1 + 1 / 32.0;
    case DeltaCodec::kTernary:
      return 1;
    case DeltaCodec::kTopK:
      return 0.153;
    case DeltaCodec::kLowRank:
      return 1;  // OuterConfig::budget_bits (routing/delta_bits.h)
  }
  return 32;
}

// What the operator wants of the wide area: a codec by name, one that the planner picks for the
// measured links (pipeline/plan/outer_choice.h), or one of three that are proven together with
// where their residual lives (EffectiveOuter, round_clock.h). On the wire.
enum class OuterTier : uint8_t { kCustom, kAuto, kDefault, kStarved, kRich, kLast = kRich };

// What a replica does with outer rounds (localsgd/outer_law.h). On the wire.
enum class OuterMode : uint8_t {
  kOverlap,
  kSynchronous,
  kCo2,
  kStreaming,
  kDataParallel,
  kLast = kDataParallel
};

// What keeps one wild delta from moving a stage (localsgd/robust.h). On the wire.
enum class OuterRobust : uint8_t {
  kNone,
  kScreen,  // messages whose norm is beyond robust_limit medians are left out, tokens bounded
  kClip,    // CenteredClip: what is beyond robust_limit median distances is drawn in
  kTrim,    // of every parameter the robust_trim largest and smallest shares are left out
  kLast = kTrim
};

// What the operator sets of a codec for each tensor (compression/codec_table.h). On the wire.
enum class CodecBudget : uint8_t {
  kNone,   // one codec for all tensors
  kBits,   // budget_bits a parameter and message, with least error
  kError,  // the error that `codec` for all tensors would have, in fewest bytes
  kLast = kError
};

// Who sums the deltas of a stage: every replica all of them, or each replica a part for all
// (docs/PROTOCOL.md, "A round", "A sharded round").
enum class OuterReduce : uint8_t {
  kAuto,  // sharded where a stage is planned with more than kAllToAllMax replicas
  kAll,
  kSharded,
  kLast = kSharded
};
inline constexpr int64_t kAllToAllMax = 3;

// How sums travel: as the deltas do, or by a codec of their own (1 + its DeltaCodec).
enum class DownCodec : uint8_t { kAuto, kLast = 1 + static_cast<uint8_t>(DeltaCodec::kLast) };

// What the planner chooses (0, −1, kAuto) stands in the plan (PipelinePlan::settings).
struct OuterConfig {
  int64_t inner_steps = 16;  // τ ≥ 1; 0: the planner chooses
  int64_t overlap_steps = 4;  // δ in [0, τ]: the committed update lands this many inner steps after
                              // the boundary; −1: the planner chooses
  float learning_rate = 0.7f;           // α
  float momentum = 0.6f;                // β, Nesterov
  OuterTier tier = OuterTier::kCustom;  // kAuto: the planner chooses `codec`; others set it
  DeltaCodec codec = DeltaCodec::kInt8;
  ResidualPlace residual = ResidualPlace::kBuffer;
  OuterReduce reduce = OuterReduce::kAuto;
  DownCodec down_codec = DownCodec::kAuto;  // of sharded rounds
  OuterMode mode = OuterMode::kOverlap;
  int32_t fragments = 4;    // kStreaming: P, in [1, τ]
  float momentum_clip = 0;  // kCo2: φ∞, in units of a parameter; 0 is off
  float gap = 0;            // kCo2: Λ ≥ 1; 0: from the stability limit
  OuterRobust robust = OuterRobust::kScreen;
  float robust_limit = 3;    // kScreen, kClip: in medians
  float robust_trim = 0.2f;  // kTrim: of the messages, at each end
  CodecBudget budget = CodecBudget::kNone;
  float budget_bits = 1;       // kBits, and of codec kLowRank
  int64_t budget_rounds = 16;  // a table is made anew every so many rounds
  bool absences = true;        // a round does not wait for a replica that is late by far
  float sum_checks = 0.4f;     // of a sharded round: pieces of each reducer checked, on average
  bool operator==(const OuterConfig&) const = default;
};

inline DeltaCodec DownCodecOf(const OuterConfig& outer) {
  if (outer.down_codec == DownCodec::kAuto) return outer.codec;
  return static_cast<DeltaCodec>(static_cast<uint8_t>(outer.down_codec) - 1);
}
// Of a stage planned with so many replicas, dead ones counted: it does not change in a run.
inline bool IsSharded(const OuterConfig& outer, int64_t planned_replicas) {
  if (outer.reduce == OuterReduce::kAuto) return planned_replicas > kAllToAllMax;
  return outer.reduce == OuterReduce::kSharded && planned_replicas > 1;
}

// What a node keeps of a layer between forward and backward: all that the way back reads, or the
// layer's input, from which it is computed again; same bits. kAuto: the latter for as many layers
// as the node's memory asks for (pipeline/plan/memory_model.h). On the wire.
enum class Recompute : uint8_t { kAuto, kNever, kAlways, kLast = kAlways };
// When nodes keep the inner optimizer's state in their host's memory, or activations there or on
// disk. On the wire.
enum class Offload : uint8_t { kAuto, kNever, kAlways, kLast = kAlways };

struct PipelineConfig {
  int32_t stages = 0;  // 0: the planner chooses (at least 3 when nodes and layers allow)
  double skip_ratio =
      0.25;           // share of the stages after stage 0 that a microbatch leaves out, in [0, 0.5]
  int32_t swaps = 0;  // neighbouring stages a path may exchange
  int32_t microbatches_per_step = 8;     // over all stage-0 replicas
  int32_t sequences_per_microbatch = 4;  // 0: the planner cuts sequences_per_step into microbatches
  int32_t sequences_per_step = 0;  // only then: the batch of a step, over all stage-0 replicas
  int32_t in_flight =
      4;  // microbatches a stage-0 node keeps in the pipeline; 0: the planner chooses
  // How activations and gradients travel over the slow links that the plan names: none, int8, bf16.
  DeltaCodec slow_link_codec = DeltaCodec::kNone;
  bool detours = true;  // a stage-0 node leads late microbatches around who is late
  Recompute recompute = Recompute::kAuto;
  Offload offload = Offload::kAuto;
  // Stashes between forward and backward, in the host's memory or on a disk that a volunteer offers
  // (pipeline/plan/node_memory.h).
  Offload offload_activations = Offload::kAuto;
  // Of the visits of microbatches to stages after the first: share that another replica repeats.
  float work_checks = 0;
  bool operator==(const PipelineConfig&) const = default;
};

// Copies of the whole state that the coordinator keeps while the run trains (docs/OPERATING.md).
enum class LostStage : uint8_t {
  kCheckpoint,  // the run goes back to its newest checkpoint
  kNeighbours,  // a middle stage is made again from the two next to it (model/stage_remake.h)
  kLast = kNeighbours
};
struct CheckpointConfig {
  int64_t every_rounds = 0;  // spans of inner_steps between two; 0: none are made
  int32_t keep = 2;          // generations
  LostStage lost_stage = LostStage::kCheckpoint;  // what happens when nobody is left of a stage
  int32_t least_s = 0;  // and so many seconds after the last one was whole
  bool operator==(const CheckpointConfig&) const = default;
};
// What `init` writes. A checkpoint of a tiny model costs its run about 0.1 s.
inline constexpr CheckpointConfig kInitialCheckpoints = {8, 2, LostStage::kCheckpoint, 10};

// Nodes of one stage whose mutual links are fast: together one replica (a cohort of the plan;
// docs/decisions/0058-clusters.md).
struct ClusterConfig {
  // "off"; "measured": by the two limits; or who, as "lab1; 3fa9 12ab": groups between semicolons,
  // members by region or by how their ids begin.
  std::string groups = "off";
  float rate_mbps_min = 1000;  // measured: of every pair, each way
  float rtt_ms_max = 2;
  // A step's sum of gradients is taken so many steps later, 0 or 1, and made meanwhile.
  int32_t overlap_steps = 0;
  bool is_on() const { return groups != "off"; }
  bool operator==(const ClusterConfig&) const = default;
};

struct RunConfig {
  std::string name = "skerry-run";
  uint64_t seed = 1;
  int64_t steps = 256;       // inner steps; a multiple of outer.inner_steps
  int32_t nodes_min = 8;     // training starts when so many nodes are admitted and measured
  int32_t nodes_max = 1024;  // so many know each other and take part; the others are in reserve
  double heartbeat_s = 1.0;
  double node_silent_s =
      10.0;              // a node without progress or heartbeat for this long is declared dead
  double replan_s = 60;  // how often a move of nodes is considered while the run trains; 0: never
  TransformerConfig model;
  InnerConfig inner;
  OuterConfig outer;
  PipelineConfig pipeline;
  CheckpointConfig checkpoint;
  ClusterConfig cluster;
  std::string data_dir = "data";  // token shards, relative to the run directory
  bool operator==(const RunConfig&) const = default;
};

}  // namespace skerry
