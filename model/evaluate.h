// Validation: how well a model predicts text it was not trained on.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "kernels/backend.h"
#include "model/token_dataset.h"

namespace skerry {

struct Evaluation {
  double loss = 0;  // mean cross-entropy per token, nat
  int64_t windows = 0;
  int64_t tokens = 0;
};

// Over `windows_max` ≥ 1 windows of the validation split, spread evenly (all, if it has fewer).
// `parameters` in ParameterLayout::ForModel(config) order. FailedPrecondition if the split has no
// window of config.context or another vocabulary. `on_window` is told how many of how many are
// done.
absl::StatusOr<Evaluation> Evaluate(const TransformerConfig& config,
                                    std::span<const float> parameters, const TokenDataset& data,
                                    int64_t windows_max, Backend* backend,
                                    const std::function<void(int64_t, int64_t)>& on_window = {});

}  // namespace skerry
