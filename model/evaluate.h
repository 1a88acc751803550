// Validation: how well a model predicts text it was not trained on.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "kernels/backend.h"
#include "model/decoder.h"
#include "model/token_dataset.h"

namespace skerry {

using OnWindow = std::function<void(int64_t done, int64_t all)>;

struct TextLoss {
  double loss = 0;  // mean cross-entropy per token, nat
  int64_t windows = 0;
  int64_t tokens = 0;
};

// Over `windows_max` ≥ 1 windows of the validation split, spread evenly (all, if it has fewer).
// `parameters` in ParameterLayout::ForModel(config) order. FailedPrecondition if the split has no
// window of config.context or another vocabulary. `on_window` is told how many of how many are
// done.
absl::StatusOr<TextLoss> Evaluate(const TransformerConfig& config,
                                  std::span<const float> parameters, const TokenDataset& data,
                                  int64_t windows_max, Backend* backend,
                                  const OnWindow& on_window = {});

// What is read: `count` windows of a context each.
struct EvaluationWindows {
  int64_t count = 0;
  // tokens [context + 1]: inputs and, one further, targets.
  std::function<absl::Status(int64_t window, std::span<int32_t> tokens)> read;
};
// Of the validation split; `data` outlives them. FailedPrecondition as Evaluate.
absl::StatusOr<EvaluationWindows> ValidationWindows(const TransformerConfig& config,
                                                    const TokenDataset& data);
// Of a text, whole windows only. FailedPrecondition: it has not one.
absl::StatusOr<EvaluationWindows> TextWindows(const TransformerConfig& config,
                                              std::vector<int32_t> tokens);

// As Evaluate; `left_out` says which layers a window does without, nullptr: none.
using LeftOutLayers = std::function<std::vector<int32_t>(int64_t window)>;
absl::StatusOr<TextLoss> EvaluateWindows(Decoder& decoder, const EvaluationWindows& windows,
                                         int64_t windows_max, const LeftOutLayers& left_out,
                                         const OnWindow& on_window = {});

// How a model does without some of its stages, as SkipPipe (arXiv 2502.19913) asks of models that
// were trained with paths that skip.
struct RobustnessRow {
  std::string left_out;  // "none", "stage 2 (layers 4 to 5)", "2 of 4 stages"
  double share = 0;      // of the stages
  TextLoss evaluation;
};

// The model in `stages` of equal numbers of layers: whole; without each stage but the first, which
// holds the ends and is never left out; and without 1, 2, … of them, drawn anew for each window
// with `seed`. `on_window` counts the windows of all rows. InvalidArgument: stages outside 2 to the
// number of layers, or of ladders.
absl::StatusOr<std::vector<RobustnessRow>> Robustness(Decoder& decoder,
                                                      const EvaluationWindows& windows,
                                                      int64_t windows_max, int32_t stages,
                                                      uint64_t seed,
                                                      const OnWindow& on_window = {});

}  // namespace skerry
