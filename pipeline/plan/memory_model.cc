#include "pipeline/plan/memory_model.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

constexpr int64_t kFloat = sizeof(float);

// Per token: input, normed, q, k, v, attention out, log-sum-exp, middle, normed, gate and up,
// product, two rms.
int64_t LayerStashFloats(const TransformerConfig& model) {
  const int64_t kv = int64_t{model.kv_heads} * model.head_size();
  return int64_t{6} * model.hidden + 2 * kv + model.heads + int64_t{3} * model.ffn + 2;
}

}  // namespace

StageMemory MemoryOf(const RunConfig& config, int32_t layers, bool holds_ends, int32_t held) {
  const TransformerConfig& model = config.model;
  const int64_t weights = StageParameters(model, layers, holds_ends) * kFloat;
  const int64_t tokens = MicrobatchTokens(config);
  const bool adam = config.inner.optimizer == InnerOptimizer::kAdamW;
  const bool buffer = config.outer.residual == ResidualPlace::kBuffer;
  const int64_t ends_stash = holds_ends ? int64_t{2} * model.hidden : 0;
  const int64_t per_token = layers * LayerStashFloats(model) + ends_stash;

  StageMemory memory;
  memory.weights = weights;
  memory.gradients = weights;
  memory.optimizer = adam ? 2 * weights : 0;
  memory.outer = (buffer ? 4 : 3) * weights;
  memory.stash = held * (tokens * per_token * kFloat + 2 * BoundaryBytes(config));
  const int64_t widest = std::max<int64_t>(int64_t{4} * model.ffn, int64_t{4} * model.hidden);
  memory.workspace = tokens * (widest + (holds_ends ? model.vocab : 0)) * kFloat;
  return memory;
}

int32_t HeldMax(const RunConfig& config, int32_t first_replicas, int32_t replicas,
                bool holds_ends) {
  const PipelineConfig& pipeline = config.pipeline;
  if (holds_ends) return std::min(pipeline.in_flight, pipeline.microbatches_per_step);
  const int32_t share = (pipeline.microbatches_per_step + replicas - 1) / replicas + 2;
  return std::min(pipeline.in_flight * first_replicas, share);
}

std::string BytesText(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 0x1p30) return absl::StrFormat("%.1f GiB", value / 0x1p30);
  if (value >= 0x1p20) return absl::StrFormat("%.1f MiB", value / 0x1p20);
  return absl::StrFormat("%.1f KiB", value / 0x1p10);
}

}  // namespace skerry
