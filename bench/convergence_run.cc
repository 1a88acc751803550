#include "bench/convergence_run.h"

#include <cmath>
#include <limits>

#include "bench/convergence_fleet.h"
#include "common/status.h"
#include "model/evaluate.h"

namespace skerry::bench {
namespace {

TransformerConfig Transformer(int32_t hidden, int32_t layers, int32_t heads, int32_t ffn,
                              int32_t context) {
  TransformerConfig model;
  model.hidden = hidden;
  model.layers = layers;
  model.heads = heads;
  model.kv_heads = heads / 2;
  model.ffn = ffn;
  model.context = context;
  return model;
}

RunConfig RunOf(const ConvergenceSize& size, const Training& training, const Rates& rates,
                uint64_t seed) {
  RunConfig config;
  config.seed = seed;
  config.steps = size.steps;
  config.model = size.model;
  config.inner.optimizer = size.optimizer;
  config.inner.learning_rate = rates.inner;
  config.inner.min_learning_rate = 0.1f * rates.inner;
  config.inner.beta2 = rates.beta2;
  config.inner.warmup_steps = size.steps / 4;  // a shorter one is worse for all
  config.pipeline.microbatches_per_step = training.replicas;
  config.pipeline.sequences_per_microbatch = size.sequences;
  config.outer.inner_steps = training.tau;
  config.outer.overlap_steps = training.delta;
  config.outer.learning_rate = rates.alpha;
  config.outer.momentum = rates.beta;
  config.outer.codec = training.codec;
  config.outer.budget_bits = static_cast<float>(training.bits);
  config.outer.residual = training.residual;
  return config;
}

// A model of the first layer and every other one after it, from `offset` ∈ {1, 2} on.
std::vector<float> EveryOtherLayer(const TransformerConfig& whole, std::span<const float> values,
                                   int32_t offset, TransformerConfig* half) {
  const ParameterLayout layout = ParameterLayout::ForModel(whole);
  *half = whole;
  half->layers = 0;
  std::vector<float> kept;
  // Blocks: the embedding, the layers, the head.
  for (size_t b = 0; b < layout.blocks().size(); ++b) {
    const int32_t layer = static_cast<int32_t>(b) - 1;
    const bool is_layer = layer >= 0 && layer < whole.layers;
    if (is_layer && layer > 0 && (layer - offset) % 2 != 0) continue;
    half->layers += is_layer ? 1 : 0;
    const ParameterBlock& block = layout.blocks()[b];
    const auto part =
        values.subspan(static_cast<size_t>(block.offset), static_cast<size_t>(block.size));
    kept.insert(kept.end(), part.begin(), part.end());
  }
  return kept;
}

absl::StatusOr<double> HalfLoss(const ConvergenceSize& size, std::span<const float> base,
                                const TokenDataset& data, Backend* backend) {
  double sum = 0;
  for (const int32_t offset : {1, 2}) {
    TransformerConfig half;
    const auto kept = EveryOtherLayer(size.model, base, offset, &half);
    SKERRY_ASSIGN_OR_RETURN(
        const TextLoss evaluation,
        Evaluate(half, kept, data, std::max<int64_t>(size.validation_windows / 4, 1), backend));
    sum += evaluation.loss;
  }
  return sum / 2;
}

}  // namespace

absl::StatusOr<ConvergenceSize> ConvergenceSizeOf(const std::string& name) {
  if (name == "tiny") return ConvergenceSize{name, Transformer(48, 5, 4, 128, 64), 2, 384, 512};
  if (name == "demo") return ConvergenceSize{name, Transformer(192, 8, 6, 512, 256), 1, 512, 128};
  if (name == "10m") return ConvergenceSize{name, Transformer(320, 9, 8, 864, 256), 1, 512, 64};
  return NotFound("no model '%s': tiny, demo or 10m", name);
}

absl::StatusOr<Outcome> TrainReplicas(const ConvergenceSize& size, const Training& training,
                                      const Rates& rates, uint64_t seed, const TokenDataset& data) {
  const RunConfig config = RunOf(size, training, rates, seed);
  OuterLawOptions options = {.fragments = training.fragments};
  // Counted in rounds: all replicas read as many tokens in a round, and one that begins or ends in
  // the middle of a fragment's schedule is not blown up.
  options.base.nominal_tokens = 1;
  SKERRY_ASSIGN_OR_RETURN(const OuterLaw law, OuterLaw::Of(training.mode, config.outer, options));
  SKERRY_ASSIGN_OR_RETURN(const auto fleet, Fleet::Create(config, training, law, seed));
  Outcome outcome;
  outcome.loss = outcome.half_loss = std::numeric_limits<double>::infinity();
  for (int64_t step = 0; step < size.steps; ++step) {
    const absl::Status status = fleet->Step(step, data);
    if (training.goes_back && step + 1 == size.steps / 2 - training.tau) fleet->NoteBase();
    if (training.goes_back && step + 1 == size.steps / 2 && status.ok()) {
      SKERRY_ASSIGN_OR_RETURN(outcome.dropped_rounds, fleet->GoBack());
    }
    // A value that is not finite or too large: this contender diverged, which is a result.
    if (absl::IsInvalidArgument(status)) return outcome;
    SKERRY_RETURN_IF_ERROR(status);
  }
  if (!fleet->Finish(size.steps).ok()) return outcome;
  const std::vector<float> base = fleet->Base();
  SKERRY_ASSIGN_OR_RETURN(
      const TextLoss evaluation,
      Evaluate(size.model, base, data, size.validation_windows, fleet->backend()));
  outcome.loss = std::isfinite(evaluation.loss) ? evaluation.loss : outcome.loss;
  SKERRY_ASSIGN_OR_RETURN(outcome.half_loss, HalfLoss(size, base, data, fleet->backend()));
  outcome.rounds = fleet->messages() / law.fragments;
  if (outcome.rounds > 0) {
    outcome.bits = 8.0 * static_cast<double>(fleet->bytes()) /
                   (static_cast<double>(base.size()) * training.replicas *
                    static_cast<double>(outcome.rounds));
  }
  return outcome;
}

}  // namespace skerry::bench
