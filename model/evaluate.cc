#include "model/evaluate.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "common/check.h"
#include "common/rng.h"
#include "common/status.h"

namespace skerry {

absl::StatusOr<EvaluationWindows> ValidationWindows(const TransformerConfig& config,
                                                    const TokenDataset& data) {
  const int64_t available = data.windows(Split::kValidation, config.context);
  if (available < 1 || data.vocab() > config.vocab) {
    return FailedPrecondition(
        "the data has %d validation windows of %d tokens and a vocabulary of %d; the model wants "
        "one and %d",
        available, config.context, data.vocab(), config.vocab);
  }
  return EvaluationWindows{available, [&data](int64_t window, std::span<int32_t> tokens) {
                             return data.ReadWindow(Split::kValidation, window, tokens);
                           }};
}

absl::StatusOr<EvaluationWindows> TextWindows(const TransformerConfig& config,
                                              std::vector<int32_t> tokens) {
  const int64_t count = (static_cast<int64_t>(tokens.size()) - 1) / config.context;
  if (count < 1) {
    return FailedPrecondition(
        "the text has %d tokens, a window of the model's context wants %d; --context shortens it",
        tokens.size(), config.context + 1);
  }
  const auto text = std::make_shared<const std::vector<int32_t>>(std::move(tokens));
  return EvaluationWindows{
      count, [text, context = config.context](int64_t window, std::span<int32_t> out) {
        std::copy_n(text->begin() + window * context, out.size(), out.begin());
        return absl::OkStatus();
      }};
}

absl::StatusOr<TextLoss> EvaluateWindows(Decoder& decoder, const EvaluationWindows& windows,
                                         int64_t windows_max, const LeftOutLayers& left_out,
                                         const OnWindow& on_window) {
  SKERRY_CHECK(windows_max >= 1);
  const int32_t context = decoder.config().context;
  TextLoss result;
  result.windows = std::min(windows_max, windows.count);
  result.tokens = result.windows * context;
  std::vector<int32_t> window(static_cast<size_t>(context) + 1);
  double sum = 0;
  for (int64_t i = 0; i < result.windows; ++i) {
    const int64_t index = i * windows.count / result.windows;
    SKERRY_RETURN_IF_ERROR(windows.read(index, window));
    decoder.LeaveOut(left_out ? left_out(index) : std::vector<int32_t>());
    const std::span<const int32_t> tokens(window);
    SKERRY_ASSIGN_OR_RETURN(const float loss,
                            decoder.Loss(tokens.first(tokens.size() - 1), tokens.subspan(1), 1));
    sum += loss;
    if (on_window) on_window(i + 1, result.windows);
  }
  decoder.LeaveOut({});
  result.loss = sum / static_cast<double>(result.windows);
  return result;
}

absl::StatusOr<TextLoss> Evaluate(const TransformerConfig& config,
                                  std::span<const float> parameters, const TokenDataset& data,
                                  int64_t windows_max, Backend* backend,
                                  const OnWindow& on_window) {
  SKERRY_ASSIGN_OR_RETURN(const auto windows, ValidationWindows(config, data));
  SKERRY_ASSIGN_OR_RETURN(const auto decoder,
                          Decoder::Create(config, parameters, config.context, backend));
  return EvaluateWindows(*decoder, windows, windows_max, nullptr, on_window);
}

namespace {

struct StageCut {
  int32_t together, stages_max, stages;  // TransformerConfig's
  int32_t first(int32_t stage) const { return stage * stages_max / stages * together; }
  void AppendLayers(int32_t stage, std::vector<int32_t>& out) const {
    for (int32_t layer = first(stage); layer < first(stage + 1); ++layer) out.push_back(layer);
  }
};

// `count` of the stages but the first, drawn for this window.
std::vector<int32_t> Drawn(const StageCut& cut, int32_t count, uint64_t seed, int64_t window) {
  std::vector<int32_t> stages(static_cast<size_t>(cut.stages) - 1);
  std::iota(stages.begin(), stages.end(), 1);
  Rng rng(seed, "left out", static_cast<uint64_t>(window));
  std::vector<int32_t> layers;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    std::swap(stages[i], stages[i + static_cast<size_t>(rng.Below(stages.size() - i))]);
    cut.AppendLayers(stages[i], layers);
  }
  return layers;
}

}  // namespace

absl::StatusOr<std::vector<RobustnessRow>> Robustness(Decoder& decoder,
                                                      const EvaluationWindows& windows,
                                                      int64_t windows_max, int32_t stages,
                                                      uint64_t seed, const OnWindow& on_window) {
  const TransformerConfig& model = decoder.config();
  const StageCut cut{model.layers_together(), model.stages_max(), stages};
  if (stages < 2 || stages > cut.stages_max) {
    return InvalidArgument("stages: want 2 to %d, the model's %s, got %d", cut.stages_max,
                           model.ladder > 0 ? "ladders" : "layers", stages);
  }
  std::vector<RobustnessRow> rows;
  const int64_t rows_all = 2 * int64_t{stages} - 1;
  const auto shown = [&](int64_t done, int64_t all) {
    if (on_window) on_window(std::ssize(rows) * all + done, rows_all * all);
  };
  const auto add = [&](std::string name, double share,
                       const LeftOutLayers& left_out) -> absl::Status {
    SKERRY_ASSIGN_OR_RETURN(const TextLoss evaluation,
                            EvaluateWindows(decoder, windows, windows_max, left_out, shown));
    rows.push_back({std::move(name), share, evaluation});
    return absl::OkStatus();
  };
  SKERRY_RETURN_IF_ERROR(add("none", 0, nullptr));
  for (int32_t stage = 1; stage < stages; ++stage) {
    std::vector<int32_t> layers;
    cut.AppendLayers(stage, layers);
    const std::string name =
        absl::StrFormat("stage %d (layers %d to %d)", stage, layers.front(), layers.back());
    SKERRY_RETURN_IF_ERROR(add(name, 1.0 / stages, [&](int64_t) { return layers; }));
  }
  for (int32_t count = 1; count < stages; ++count) {
    SKERRY_RETURN_IF_ERROR(add(absl::StrFormat("%d of %d stages", count, stages),
                               static_cast<double>(count) / stages,
                               [&](int64_t window) { return Drawn(cut, count, seed, window); }));
  }
  return rows;
}

}  // namespace skerry
