// A whole model in training on one device, for benchmarks of steps.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "model/stage_trainer.h"

namespace skerry::bench {

// FLOP of forward and backward of a token: 6 a multiplied parameter, and full attention (PaLM,
// appendix B).
double FlopsPerToken(const TransformerConfig& model);

// One microbatch of random tokens a step. One step has been made: it prepares.
class Trainee {
 public:
  Trainee(const TransformerConfig& model, std::unique_ptr<Backend> backend, int32_t sequences = 4);

  void Step();
  double ProcessorSeconds();  // of a step, of this thread
  double WallSeconds();
  double tokens() const { return static_cast<double>(tokens_.size()); }
  DType type() const { return backend_->compute_type(); }

 private:
  RunConfig config_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<StageTrainer> trainer_;
  std::vector<int32_t> tokens_, targets_;
  int64_t step_ = 0;
};

}  // namespace skerry::bench
