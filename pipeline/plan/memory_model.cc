#include "pipeline/plan/memory_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/device_split.h"
#include "common/round_clock.h"
#include "routing/cost_model.h"
#include "routing/delta_bits.h"

namespace skerry {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kLogitRows = 512;  // model/head.h, kHeadChunk

// Floats per token that the backward of a layer reads: input, q, k, v, attention out, log-sum-exp,
// middle, gate and up, two rms (model/transformer_block.h). Of devices that share its tensors each
// has all of the stream, input and middle, and a part of what lies between.
int64_t LayerStashFloats(const TransformerConfig& model, int32_t tensors_over = 1) {
  const int64_t kv = int64_t{model.kv_heads} * model.head_size();
  const int64_t cut = int64_t{2} * model.hidden + 2 * kv + model.heads + int64_t{2} * model.ffn;
  return int64_t{2} * model.hidden + 2 + cut / tensors_over;
}

// Of a recomputed layer: its input; of a ladder also that of its MLP, and both rms, which the way
// back reads when the layer before has been computed again (model/ladder_block.h).
int64_t RecomputedStashFloats(const TransformerConfig& model) {
  return model.ladder > 0 ? int64_t{2} * model.hidden + 2 : model.hidden;
}

// The stage is the whole model: its stream never leaves it.
bool KeepsStream(const TransformerConfig& model, int32_t layers, bool holds_ends) {
  return holds_ends && layers == model.layers;
}

// Floats per token between two operations: the stream, unless stashes have it, a block's, and the
// head's.
int64_t WorkspaceFloats(const TransformerConfig& model, int32_t layers, bool holds_ends,
                        int32_t tensors_over) {
  const int64_t kv = int64_t{model.kv_heads} * model.head_size();
  const int64_t cut = int64_t{2} * model.hidden + 2 * kv + int64_t{4} * model.ffn;
  const int64_t branches = model.ladder > 0 ? 2 : 1;
  const int64_t streams = KeepsStream(model, layers, holds_ends) ? 0 : 1;
  const int64_t block = (streams + 2 + branches) * model.hidden + 1 + cut / tensors_over;
  return block + (holds_ends ? int64_t{2} * model.hidden + 2 : 0);
}

// Of devices that share it, the largest part of the vocabulary.
int64_t OwnVocab(const TransformerConfig& model, int32_t tensors_over) {
  int64_t most = 0;
  for (int32_t rank = 0; rank < tensors_over; ++rank)
    most = std::max(most, VocabRowsOf(model.vocab, {tensors_over, rank}).size);
  return most;
}

// Of the stage's parameters, a device's: all have the norms.
int64_t OwnParameters(const TransformerConfig& model, int32_t layers, bool holds_ends,
                      int32_t tensors_over) {
  const int64_t norms = int64_t{2} * model.hidden;
  const int64_t cut = StageParameters(model, 1, false) - norms;
  const int64_t tables = !holds_ends ? 0 : model.tied_head ? 1 : 2;
  const int64_t rows = model.vocab - OwnVocab(model, tensors_over);  // elsewhere
  return StageParameters(model, layers, holds_ends) - layers * (cut - cut / tensors_over) -
         tables * rows * model.hidden;
}

// Of a chunk of tokens at the end of the model: logits, in bf16 their gradient apart, and what
// parts of the vocabulary tell each other.
int64_t HeadFloats(const RunConfig& config, int32_t tensors_over) {
  const int64_t rows = std::min(kLogitRows, MicrobatchTokens(config));
  const int64_t logits = rows * OwnVocab(config.model, tensors_over);
  const bool rounds = config.inner.compute == InnerCompute::kBfloat16;
  const int64_t told = tensors_over > 1 ? 3 * tensors_over * rows : 0;
  return logits + (rounds ? logits / 2 : 0) + told;
}

// What Muon's iteration takes for the largest matrix of a layer (model/orthogonal_step.h).
int64_t OrthogonalBytes(const RunConfig& config, int32_t layers) {
  if (config.inner.optimizer != InnerOptimizer::kMuon || layers == 0) return 0;
  const int64_t d = config.model.hidden;
  const int64_t floats = d * std::max<int64_t>(d, config.model.ffn) + d * d;
  const bool rounds = config.inner.compute == InnerCompute::kBfloat16;
  return (2 * floats + (rounds ? floats / 2 : 0)) * kFloat;
}

// Bits a value for which an encoder makes room before it knows how long the message gets.
double DeltaBitsMax(const OuterConfig& outer) {
  switch (outer.codec) {
    case DeltaCodec::kTernary:
      return 2.06;
    case DeltaCodec::kTopK:
      return 0.16;
    default:
      return CodecBitsOf(outer, outer.codec);
  }
}

// Spans of τ steps whose messages a peer may have sent before the first of them lands here: of two
// rounds where it may be at its next boundary, in co2 of a third.
double SpansHeld(const OuterConfig& outer) {
  if (outer.mode == OuterMode::kCo2) return 3;
  const int64_t fragments = FragmentsOf(outer);
  if (fragments == 1) return outer.overlap_steps > outer.inner_steps - 2 ? 2 : 1;
  const int64_t rounds = outer.overlap_steps * fragments / outer.inner_steps + 2;
  return static_cast<double>(rounds) / static_cast<double>(fragments);
}

// The own messages, in the room that encoding takes, what others sent, and in sharded rounds what
// leaves: pieces are packed for each reducer.
int64_t CodecBytes(const RunConfig& config, int64_t parameters, int32_t replicas) {
  const auto n = static_cast<double>(parameters);
  // Until there is a table, messages are of `codec`, whatever the budget.
  const double sent_bits =
      std::max(CodecBitsOf(config.outer, config.outer.codec), DeltaBitsOf(config.outer));
  const double room = n * std::max(DeltaBitsMax(config.outer), sent_bits) / 8;
  const double sent = n * sent_bits / 8;
  const int own = config.outer.mode == OuterMode::kCo2 ? 2 : 1;
  const int packed = IsSharded(config.outer, replicas) ? own : 0;
  return static_cast<int64_t>(own * room +
                              sent * (packed + (replicas - 1) * SpansHeld(config.outer)));
}

}  // namespace

StageMemory MemoryOf(const RunConfig& config, int32_t layers, bool holds_ends,
                     const StageHolds& holds, int32_t tensors_over) {
  const TransformerConfig& model = config.model;
  const int64_t parameters = StageParameters(model, layers, holds_ends);
  const int64_t weights = parameters * kFloat;
  const int64_t own = OwnParameters(model, layers, holds_ends, tensors_over) * kFloat;
  const int64_t tokens = MicrobatchTokens(config);
  const bool has_moments = config.inner.optimizer != InnerOptimizer::kSgd;
  const int64_t moments = has_moments ? 2 * weights : 0;
  const bool buffer = config.outer.residual == ResidualPlace::kBuffer;
  const bool rounds = holds.replicas > 1;
  // A microbatch of another replica that is computed again, and what waits for that.
  const bool checks = config.pipeline.work_checks > 0 && !holds_ends;
  constexpr int64_t kCheckBoundaries = 26;  // of six checks, and what comes out of one

  StageMemory memory;
  const bool rounds_weights = config.inner.compute == InnerCompute::kBfloat16;
  memory.weights = own + (rounds_weights ? own / 2 : 0);
  memory.gradients = (1 + holds.gradients + (checks ? 1 : 0)) * own;
  memory.sums = config.cluster.is_on() && rounds ? 4 * weights : 0;
  memory.optimizer = (has_moments ? 2 * own : 0) + OrthogonalBytes(config, layers);
  const bool has_momentum = EffectiveOuter(config.outer).momentum > 0;
  const int64_t residual = config.outer.mode == OuterMode::kCo2 ? weights : weights / 2;
  memory.outer = (has_momentum ? 2 : 1) * weights + (buffer ? residual : 0);
  memory.codec = rounds ? CodecBytes(config, parameters, holds.replicas) : 0;
  const int32_t resident = StashesOf(config, holds_ends, holds) - holds.parked;
  memory.stash = resident * StashBytes(config, layers, holds_ends, holds, tensors_over);
  const int32_t payloads = KeepsStream(model, layers, holds_ends) ? 0 : 2 * holds.microbatches;
  memory.buffers = (payloads + (checks ? kCheckBoundaries : 0)) * BoundaryBytes(config);
  const int64_t head = holds_ends ? HeadFloats(config, tensors_over) : 0;
  const int64_t shared = holds.recomputed > 0
                             ? LayerStashFloats(model, tensors_over) - RecomputedStashFloats(model)
                             : 0;
  const int64_t between = WorkspaceFloats(model, layers, holds_ends, tensors_over);
  memory.workspace = (tokens * (between + 2 + shared) + head) * kFloat;
  // The second moment's and the first's upper halves.
  memory.handover = rounds ? 2 * weights + moments / 2 : 0;
  const bool is_kept =
      config.checkpoint.every_rounds > 0 || config.checkpoint.lost_stage == LostStage::kNeighbours;
  memory.checkpoint = is_kept ? 2 * weights + moments : 0;
  return memory;
}

StageHolds HoldsOf(const RunConfig& config, int32_t first_replicas, int32_t replicas,
                   bool holds_ends) {
  const int32_t held = HeldMax(config, first_replicas, replicas, holds_ends);
  const int32_t most = GradientsMax(config, replicas, holds_ends);
  return {held, holds_ends ? most : std::min(most, kGradientsMin), replicas};
}

int32_t StashesOf(const RunConfig& config, bool holds_ends, const StageHolds& holds) {
  return holds.microbatches + (config.pipeline.work_checks > 0 && !holds_ends ? 1 : 0);
}

int64_t StashBytes(const RunConfig& config, int32_t layers, bool holds_ends,
                   const StageHolds& holds, int32_t tensors_over) {
  const int64_t kept = LayerStashFloats(config.model, tensors_over);
  const int64_t again = kept - RecomputedStashFloats(config.model);
  // The first layer of a ladder has one input, of attention and MLP.
  const int64_t ladders = config.model.ladder > 0 ? layers / config.model.ladder : 0;
  const int64_t stream = KeepsStream(config.model, layers, holds_ends) ? config.model.hidden : 0;
  // Stage 0 keeps the tokens, too.
  return MicrobatchTokens(config) *
         (layers * kept - holds.recomputed * again - ladders * config.model.hidden + stream +
          (holds_ends ? 1 : 0)) *
         kFloat;
}

double StashBytesMoved(const RunConfig& config, int32_t layers, const StageHolds& holds,
                       InnerCompute type) {
  const auto whole = static_cast<double>(StashBytes(config, layers, false, holds));
  if (type != InnerCompute::kBfloat16) return whole;
  // Half of q, k, v, attention out, gate and up: products write them rounded.
  const TransformerConfig& model = config.model;
  const int64_t kv = int64_t{model.kv_heads} * model.head_size();
  const int64_t rounded = int64_t{2} * (model.hidden + kv + model.ffn);
  return whole - static_cast<double>((layers - holds.recomputed) * rounded *
                                     MicrobatchTokens(config) * kFloat / 2);
}

double RepeatShare(const RunConfig& config, int32_t layers, const StageHolds& holds) {
  if (holds.recomputed == 0) return 0;
  return LayerRepeatShare(config) * holds.recomputed / layers;
}

int32_t HeldMax(const RunConfig& config, int32_t first_replicas, int32_t replicas,
                bool holds_ends) {
  const PipelineConfig& pipeline = config.pipeline;
  const int32_t share = (pipeline.microbatches_per_step + replicas - 1) / replicas + 2;
  if (holds_ends) return std::min(pipeline.in_flight, share - 2);
  return std::min(pipeline.in_flight * first_replicas, share);
}

int32_t GradientsMax(const RunConfig& config, int32_t replicas, bool holds_ends) {
  const PipelineConfig& pipeline = config.pipeline;
  const int32_t share = (pipeline.microbatches_per_step + replicas - 1) / replicas;
  // With a window of one the microbatches of a stage-0 node come in turn.
  if (holds_ends) return std::min(share, pipeline.in_flight);
  return std::min(share + 1, std::max(pipeline.in_flight, kGradientsMin));
}

std::string BytesText(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 0x1p30) return absl::StrFormat("%.1f GiB", value / 0x1p30);
  if (value >= 0x1p20) return absl::StrFormat("%.1f MiB", value / 0x1p20);
  return absl::StrFormat("%.1f KiB", value / 0x1p10);
}

std::string PutOffText(const StageHolds& holds) {
  std::string text;
  if (holds.by_tensors) text += ", tensors shared by its devices";
  if (holds.recomputed > 0) text += absl::StrFormat(", %d layers recomputed", holds.recomputed);
  if (holds.offloads) text += ", optimizer on the host";
  if (holds.parked > 0) {
    text += absl::StrFormat(", %d stashes parked%s", holds.parked, holds.on_disk ? " on disk" : "");
  }
  return text;
}

std::string PartsText(const StageMemory& memory) {
  const std::pair<const char*, int64_t> parts[] = {
      {"weights", memory.weights},     {"gradients", memory.gradients},
      {"optimizer", memory.optimizer}, {"outer", memory.outer},
      {"sums", memory.sums},           {"deltas", memory.codec},
      {"stash", memory.stash},         {"buffers", memory.buffers},
      {"workspace", memory.workspace}};
  std::string text;
  for (const auto& [name, bytes] : parts) {
    if (bytes == 0) continue;
    text += absl::StrFormat("%s%s %s", text.empty() ? "" : ", ", name, BytesText(bytes));
  }
  if (memory.now_and_then() > 0) {
    text += absl::StrFormat("; now and then %s for joiners and checkpoints",
                            BytesText(memory.now_and_then()));
  }
  return text;
}

}  // namespace skerry
