#include "model/evaluate.h"

#include <algorithm>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "model/decoder.h"

namespace skerry {

absl::StatusOr<Evaluation> Evaluate(const TransformerConfig& config,
                                    std::span<const float> parameters, const TokenDataset& data,
                                    int64_t windows_max, Backend* backend,
                                    const std::function<void(int64_t, int64_t)>& on_window) {
  SKERRY_CHECK(windows_max >= 1);
  const int64_t available = data.windows(Split::kValidation, config.context);
  if (available < 1 || data.vocab() > config.vocab) {
    return FailedPrecondition(
        "the data has %d validation windows of %d tokens and a vocabulary of %d; the model wants "
        "one and %d",
        available, config.context, data.vocab(), config.vocab);
  }
  SKERRY_ASSIGN_OR_RETURN(const auto decoder,
                          Decoder::Create(config, parameters, config.context, backend));
  Evaluation result;
  result.windows = std::min(windows_max, available);
  result.tokens = result.windows * config.context;
  std::vector<int32_t> window(static_cast<size_t>(config.context) + 1);
  double sum = 0;
  for (int64_t i = 0; i < result.windows; ++i) {
    const int64_t index = i * available / result.windows;
    SKERRY_RETURN_IF_ERROR(data.ReadWindow(Split::kValidation, index, window));
    const std::span<const int32_t> tokens(window);
    SKERRY_ASSIGN_OR_RETURN(const float loss,
                            decoder->Loss(tokens.first(tokens.size() - 1), tokens.subspan(1), 1));
    sum += loss;
    if (on_window) on_window(i + 1, result.windows);
  }
  result.loss = sum / static_cast<double>(result.windows);
  return result;
}

}  // namespace skerry
