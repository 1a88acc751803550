#include "bench/trainee.h"

#include <chrono>
#include <cstdlib>

#include "common/rng.h"
#include "kernels/cpu/limits.h"

namespace skerry::bench {

double FlopsPerToken(const TransformerConfig& m) {
  const double kv = m.kv_heads * m.head_size();
  const double layer = 2.0 * m.hidden * m.hidden + 2 * m.hidden * kv + 3.0 * m.hidden * m.ffn;
  return 6 * (m.layers * layer + 1.0 * m.vocab * m.hidden) + 12.0 * m.layers * m.hidden * m.context;
}

Trainee::Trainee(const TransformerConfig& model, std::unique_ptr<Backend> backend,
                 int32_t sequences)
    : backend_(std::move(backend)) {
  config_.model = model;
  config_.pipeline.sequences_per_microbatch = sequences;
  trainer_ = *StageTrainer::Create(config_, 0, model.layers, true, backend_.get());
  const auto tokens = static_cast<size_t>(sequences) * static_cast<size_t>(model.context);
  Rng rng(1);
  for (size_t i = 0; i < tokens; ++i) {
    tokens_.push_back(static_cast<int32_t>(rng.Below(static_cast<uint64_t>(model.vocab))));
    targets_.push_back(static_cast<int32_t>(rng.Below(static_cast<uint64_t>(model.vocab))));
  }
  Step();
}

void Trainee::Step() {
  const MicrobatchKey key{step_, 0};
  bool ok = trainer_->ForwardFirst(key, tokens_, {}).ok();
  ok = ok && trainer_->Loss(key, {}, targets_, {}).ok();
  ok = ok && trainer_->Backward(key, {}, {}).ok();
  if (ok) trainer_->Accumulate(key);
  ok = ok && trainer_->OptimizerStep(step_++, 1).ok();
  if (!ok) std::abort();
}

double Trainee::ProcessorSeconds() {
  const double start = ThreadSeconds();
  Step();
  return ThreadSeconds() - start;
}

double Trainee::WallSeconds() {
  const auto start = std::chrono::steady_clock::now();
  Step();
  backend_->Synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace skerry::bench
