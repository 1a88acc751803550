// Rules between the values of a configuration; ranges of single values stand in config_fields.h.
#include <cmath>

#include "common/cluster_groups.h"
#include "common/plain_number.h"
#include "common/status.h"
#include "wire/config.h"
#include "wire/config_fields.h"

namespace skerry {
namespace {

// Checks single values against their ranges and remembers the first that is outside.
struct RangeCheck {
  absl::Status status;

  void Fail(const char* section, const char* key, double value, double min, double max) {
    if (status.ok()) {
      status = InvalidArgument("[%s] %s: %s is outside %s to %s", section, key, PlainNumber(value),
                               PlainNumber(min), PlainNumber(max));
    }
  }
  void Section(const char*, const char*) {}
  template <typename T>
  void Number(const char* section, const char* key, T& value, double min, double max, const char*) {
    const auto v = static_cast<double>(value);
    if (!std::isfinite(v) || v < min || v > max) Fail(section, key, v, min, max);
  }
  void Seed(const char*, const char*, uint64_t&, const char*) {}
  void Flag(const char*, const char*, bool&, const char*) {}
  void Text(const char* section, const char* key, std::string& value, const char*) {
    if (!status.ok()) return;
    if (value.empty() || value.size() > kConfigTextBytesMax)
      status = InvalidArgument("[%s] %s: must have 1 to %d characters", section, key,
                               kConfigTextBytesMax);
    for (const char c : value) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
        status = InvalidArgument("[%s] %s: has a control character", section, key);
    }
  }
  template <typename Enum>
  void Choice(const char*, const char*, Enum&, const std::vector<std::string>&, const char*) {}
};

absl::Status CheckModel(const TransformerConfig& m) {
  if (m.hidden % m.heads != 0) {
    return InvalidArgument("[model] hidden: %d must be a multiple of heads (%d)", m.hidden,
                           m.heads);
  }
  if (m.head_size() % 2 != 0) {
    return InvalidArgument("[model] heads: hidden / heads is %d, rotary positions need it even",
                           m.head_size());
  }
  if (m.kv_heads > m.heads || m.heads % m.kv_heads != 0) {
    return InvalidArgument("[model] kv_heads: heads (%d) must be a multiple of kv_heads (%d)",
                           m.heads, m.kv_heads);
  }
  if (m.ladder > 0 && m.layers % m.ladder != 0) {
    return InvalidArgument("[model] ladder: layers (%d) must be a multiple of ladder (%d)",
                           m.layers, m.ladder);
  }
  if (m.rope_scaling == RopeScaling::kLlama3 &&
      (m.rope_original_context < 1 || m.rope_high_frequency <= m.rope_low_frequency)) {
    return InvalidArgument(
        "[model] rope_scaling: llama3 wants rope_original_context (%d) and rope_high_frequency "
        "(%g) above rope_low_frequency (%g)",
        m.rope_original_context, m.rope_high_frequency, m.rope_low_frequency);
  }
  return absl::OkStatus();
}

absl::Status CheckBatch(const PipelineConfig& p, const InnerConfig& inner) {
  if (p.sequences_per_microbatch == 0 && p.sequences_per_step == 0) {
    return InvalidArgument(
        "[pipeline] sequences_per_step: must be given where sequences_per_microbatch is 0");
  }
  if (p.sequences_per_microbatch > 0 && p.sequences_per_step > 0) {
    return InvalidArgument(
        "[pipeline] sequences_per_step: %d is the planner's to cut only if "
        "sequences_per_microbatch "
        "is 0, it is %d",
        p.sequences_per_step, p.sequences_per_microbatch);
  }
  if (p.offload == Offload::kAlways && inner.optimizer != InnerOptimizer::kAdamW) {
    return InvalidArgument(
        "[pipeline] offload: \"always\" is for inner.optimizer \"adamw\": sgd has no state, and "
        "Muon's step is products, which the host is too slow for");
  }
  if (p.slow_link_codec > DeltaCodec::kBf16) {
    return InvalidArgument("[pipeline] slow_link_codec: must be none, int8 or bf16");
  }
  return absl::OkStatus();
}

absl::Status CheckOuter(const OuterConfig& c) {
  if (c.mode == OuterMode::kCo2 && c.residual != ResidualPlace::kBuffer) {
    return InvalidArgument(
        "[outer] residual: co2 goes back to its base every round, so weights cannot hold what was "
        "not sent; want buffer");
  }
  if (c.mode == OuterMode::kCo2 && c.reduce == OuterReduce::kSharded) {
    return InvalidArgument(
        "[outer] reduce: messages of co2 are settled when they are sent, whole; want auto or all");
  }
  if (c.mode == OuterMode::kCo2 && c.gap != 0 && c.gap < 1) {
    return InvalidArgument("[outer] gap: want 0 or at least 1, got %g", c.gap);
  }
  const bool is_sparse =
      c.codec == DeltaCodec::kTopK || c.codec == DeltaCodec::kTernary || c.tier == OuterTier::kAuto;
  if (c.robust == OuterRobust::kTrim && is_sparse) {
    return InvalidArgument(
        "[outer] robust: trim leaves nothing of deltas that are mostly zeros, as ternary and topk "
        "make them; name another codec, or take screen or clip");
  }
  if (c.mode == OuterMode::kDataParallel && c.inner_steps != 1) {
    return InvalidArgument("[outer] inner_steps: data_parallel meets after every step; want 1");
  }
  if (c.mode == OuterMode::kStreaming && c.inner_steps > 0 && c.fragments > c.inner_steps) {
    return InvalidArgument("[outer] fragments: %d must be at most inner_steps (%d)", c.fragments,
                           c.inner_steps);
  }
  if (c.budget != CodecBudget::kNone && c.mode == OuterMode::kStreaming) {
    return InvalidArgument(
        "[outer] budget: streaming sends fragments, which have no tables of codecs; want none");
  }
  const bool is_low_rank =
      c.codec == DeltaCodec::kLowRank || DownCodecOf(c) == DeltaCodec::kLowRank;
  if (c.budget != CodecBudget::kNone && is_low_rank) {
    return InvalidArgument(
        "[outer] codec: lowrank takes budget_bits of its own and is in no table of codecs; name "
        "another codec, or budget none");
  }
  if (c.budget != CodecBudget::kNone && c.tier == OuterTier::kAuto) {
    return InvalidArgument(
        "[outer] tier: with a budget codecs are chosen tensor by tensor, not by the planner; want "
        "custom");
  }
  return absl::OkStatus();
}

absl::Status CheckCluster(const RunConfig& config) {
  if (!config.cluster.is_on()) return absl::OkStatus();
  const auto groups = ParseClusterGroups(config.cluster.groups);
  return groups.ok() ? absl::OkStatus() : groups.status();
}

}  // namespace

absl::Status ValidateRunConfig(const RunConfig& config) {
  RangeCheck ranges;
  RunConfig copy = config;
  VisitRunConfig(ranges, copy);
  SKERRY_RETURN_IF_ERROR(ranges.status);
  SKERRY_RETURN_IF_ERROR(CheckModel(config.model));
  if (config.outer.inner_steps > 0 && config.steps % config.outer.inner_steps != 0) {
    return InvalidArgument("[run] steps: %d must be a multiple of [outer] inner_steps (%d)",
                           config.steps, config.outer.inner_steps);
  }
  if (config.outer.inner_steps == 0 && config.outer.overlap_steps > 0) {
    return InvalidArgument(
        "[outer] overlap_steps: %d needs inner_steps; give both, or -1 and the planner chooses",
        config.outer.overlap_steps);
  }
  if (config.outer.overlap_steps > config.outer.inner_steps) {
    return InvalidArgument("[outer] overlap_steps: %d must be at most inner_steps (%d)",
                           config.outer.overlap_steps, config.outer.inner_steps);
  }
  SKERRY_RETURN_IF_ERROR(CheckOuter(config.outer));
  SKERRY_RETURN_IF_ERROR(CheckCluster(config));
  if (config.inner.min_learning_rate > config.inner.learning_rate) {
    return InvalidArgument("[inner] min_learning_rate: %g must be at most learning_rate (%g)",
                           config.inner.min_learning_rate, config.inner.learning_rate);
  }
  if (config.node_silent_s < 2 * config.heartbeat_s) {
    return InvalidArgument("[run] node_silent_s: %g must be at least twice heartbeat_s (%g)",
                           config.node_silent_s, config.heartbeat_s);
  }
  SKERRY_RETURN_IF_ERROR(CheckBatch(config.pipeline, config.inner));
  if (config.pipeline.stages > config.model.layers) {
    return InvalidArgument("[pipeline] stages: %d must be at most [model] layers (%d)",
                           config.pipeline.stages, config.model.layers);
  }
  if (config.pipeline.stages > config.model.stages_max()) {
    return InvalidArgument(
        "[pipeline] stages: %d must be at most %d: [model] ladder keeps %d of the %d layers "
        "together",
        config.pipeline.stages, config.model.stages_max(), config.model.ladder,
        config.model.layers);
  }
  if (config.nodes_min > config.nodes_max) {
    return InvalidArgument("[run] nodes_min: %d must be at most nodes_max (%d)", config.nodes_min,
                           config.nodes_max);
  }
  if (config.pipeline.stages > config.nodes_min) {
    return InvalidArgument("[pipeline] stages: %d must be at most [run] nodes_min (%d)",
                           config.pipeline.stages, config.nodes_min);
  }
  return absl::OkStatus();
}

}  // namespace skerry
