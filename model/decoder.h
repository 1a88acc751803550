// A whole model that only reads: logits and losses, no gradients.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "kernels/backend.h"
#include "model/parameter_layout.h"
#include "model/weight_store.h"

namespace skerry {

// Owned by the thread that owns the backend, which outlives it. Errors: InvalidArgument for lengths
// and for tokens outside the vocabulary.
class Decoder {
 public:
  // `parameters` in ParameterLayout::ForModel(config) order; `tokens_max` bounds a call's tokens.
  static absl::StatusOr<std::unique_ptr<Decoder>> Create(const TransformerConfig& config,
                                                         std::span<const float> parameters,
                                                         int64_t tokens_max, Backend* backend);

  const TransformerConfig& config() const { return config_; }

  // From now on these layers are the identity on the residual stream, as is a stage that a
  // microbatch's path leaves out. Each in [0, config().layers), of a ladder all or none; an empty
  // list: the whole model.
  void LeaveOut(std::span<const int32_t> layers);

  // tokens [sequences · context], any context → logits [sequences · context, vocab].
  absl::Status Logits(std::span<const int32_t> tokens, int64_t sequences, std::span<float> logits);
  // Mean cross-entropy of targets, nat.
  absl::StatusOr<float> Loss(std::span<const int32_t> tokens, std::span<const int32_t> targets,
                             int64_t sequences);
  // What follows one sequence: logits [vocab] after its last token.
  absl::Status NextLogits(std::span<const int32_t> tokens, std::span<float> logits);

 private:
  struct Pass;  // a call's shape and views
  Decoder(const TransformerConfig& config, int64_t tokens_max, Backend* backend);
  absl::Status Check(std::span<const int32_t> tokens, int64_t sequences) const;
  // Runs all layers; the stream is in pass.stream.
  void Run(const Pass& pass, std::span<const int32_t> tokens);

  TransformerConfig config_;
  ParameterLayout layout_;
  int64_t tokens_max_;
  Backend* backend_;
  std::vector<bool> left_out_;  // [layers]
  std::unique_ptr<WeightStore> weights_;
  std::unique_ptr<Buffer> workspace_;
};

}  // namespace skerry
