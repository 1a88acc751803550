#include "node/model_program.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/share_line_program.h"
#include "common/status.h"
#include "kernels/backend.h"
#include "model/document_reader.h"
#include "model/evaluate.h"
#include "model/export.h"
#include "model/generate.h"
#include "model/initialize.h"
#include "model/local_run.h"
#include "model/weight_store.h"
#include "wire/config.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

// A model from elsewhere may reach further than this machine's memory does.
void Shorten(TransformerConfig& model, int32_t context) {
  constexpr int32_t kContextDefault = 1024;
  model.context = std::min(model.context, context > 0 ? context : kContextDefault);
}

void Print(const Json& json, bool as_json, const std::string& text) {
  std::printf("%s\n", as_json ? json.dump().c_str() : text.c_str());
}

absl::StatusOr<HuggingFaceModel> ReadShown(const std::string& directory, bool json = false) {
  ShareLine line("reading the model", !json);
  return ReadHuggingFace(directory, [&line](int64_t done, int64_t all) { line.Show(done, all); });
}

absl::StatusOr<std::unique_ptr<Backend>> BackendOf(DeviceWish wish, int threads) {
  SKERRY_ASSIGN_OR_RETURN(const DeviceChoice device, ChooseDevice(wish, threads));
  return device.Create();
}

absl::StatusOr<HuggingFaceModel> ModelOf(const EvaluateOptions& options) {
  HuggingFaceModel model;
  if (options.initial) {
    SKERRY_ASSIGN_OR_RETURN(const RunConfig config, LoadRunConfig(options.config));
    model.config = config.model;
    const auto layout = ParameterLayout::ForModel(config.model);
    model.parameters.resize(static_cast<size_t>(layout.size()));
    InitializeParameters(config.seed, config.model, layout, model.parameters);
  } else {
    SKERRY_ASSIGN_OR_RETURN(model, ReadShown(options.model, options.json));
    Shorten(model.config, options.context);
  }
  return model;
}

// All texts of a file as one: documents with the end-of-text token between them.
absl::StatusOr<std::vector<int32_t>> TokensOf(const std::string& file, const std::string& model) {
  constexpr size_t kTokensMax = size_t{1} << 28;
  SKERRY_ASSIGN_OR_RETURN(const auto tokenizer, OpenTokenizer(model));
  SKERRY_ASSIGN_OR_RETURN(const auto reader, DocumentReader::Open(file, {}));
  std::vector<int32_t> tokens;
  while (true) {
    SKERRY_ASSIGN_OR_RETURN(const auto piece, reader->Next());
    if (!piece.has_value()) return tokens;
    const std::vector<int32_t> more = tokenizer->Encode(piece->text);
    if (tokens.size() + more.size() > kTokensMax) {
      return ResourceExhausted("%s: more than %d tokens; 'data prepare' takes them", file,
                               kTokensMax);
    }
    tokens.insert(tokens.end(), more.begin(), more.end());
    if (piece->ends_document && tokenizer->separator() >= 0) {
      tokens.push_back(tokenizer->separator());
    }
  }
}

void PrintRobustness(const std::vector<RobustnessRow>& rows, bool as_json) {
  Json table = Json::array();
  const double whole = rows.front().evaluation.loss;
  std::string text = absl::StrFormat("%-28s %6s %9s %12s %8s\n", "left out", "share", "loss",
                                     "perplexity", "ratio");
  for (const RobustnessRow& row : rows) {
    const double loss = row.evaluation.loss;
    table.push_back({{"left_out", row.left_out},
                     {"share", row.share},
                     {"loss", loss},
                     {"perplexity", std::exp(loss)},
                     {"tokens", row.evaluation.tokens}});
    text += absl::StrFormat("%-28s %5.1f%% %9.4f %12.3f %8.3f\n", row.left_out, 100 * row.share,
                            loss, std::exp(loss), std::exp(loss - whole));
  }
  text += absl::StrFormat("over %d tokens; which stages a window does without is drawn for it",
                          rows.front().evaluation.tokens);
  Print({{"rows", table}}, as_json, text);
}

absl::StatusOr<std::vector<float>> InitialOf(const ReferenceOptions& options,
                                             const TransformerConfig& wanted) {
  if (options.from.empty()) return std::vector<float>();
  SKERRY_ASSIGN_OR_RETURN(HuggingFaceModel model, ReadShown(options.from, options.json));
  model.config.context = wanted.context;
  if (model.config == wanted) return std::move(model.parameters);
  return InvalidArgument("%s is another model than [model] of %s; init --from writes that of one",
                         options.from, options.config);
}

}  // namespace

absl::Status EvaluateModel(const EvaluateOptions& options) {
  if (options.initial == !options.model.empty()) {
    return InvalidArgument("want either --model DIR or --initial");
  }
  if (options.data.empty() == options.text.empty()) {
    return InvalidArgument("want either --data SHARDS or --text FILE");
  }
  SKERRY_ASSIGN_OR_RETURN(const auto backend, BackendOf(options.device, options.threads));
  SKERRY_ASSIGN_OR_RETURN(const HuggingFaceModel model, ModelOf(options));
  std::unique_ptr<TokenDataset> data;
  absl::StatusOr<EvaluationWindows> windows;
  if (options.text.empty()) {
    SKERRY_ASSIGN_OR_RETURN(data, TokenDataset::Open(options.data, Verify::kSizes));
    windows = ValidationWindows(model.config, *data);
  } else {
    SKERRY_ASSIGN_OR_RETURN(auto tokens, TokensOf(options.text, options.model));
    windows = TextWindows(model.config, std::move(tokens));
  }
  if (!windows.ok()) return windows.status();
  SKERRY_ASSIGN_OR_RETURN(const auto decoder, Decoder::Create(model.config, model.parameters,
                                                              model.config.context, backend.get()));
  ShareLine line("evaluating", !options.json);
  const OnWindow show = [&line](int64_t done, int64_t all) { line.Show(done, all); };
  if (options.stages > 0) {
    SKERRY_ASSIGN_OR_RETURN(const auto rows, Robustness(*decoder, *windows, options.windows_max,
                                                        options.stages, options.seed, show));
    line.End();
    PrintRobustness(rows, options.json);
    return absl::OkStatus();
  }
  SKERRY_ASSIGN_OR_RETURN(const TextLoss evaluation,
                          EvaluateWindows(*decoder, *windows, options.windows_max, nullptr, show));
  line.End();
  Print({{"loss", evaluation.loss},
         {"perplexity", std::exp(evaluation.loss)},
         {"tokens", evaluation.tokens}},
        options.json,
        absl::StrFormat("loss %.4f nat per token over %d %s tokens, perplexity %.3f",
                        evaluation.loss, evaluation.tokens,
                        options.text.empty() ? "held-out" : "text", std::exp(evaluation.loss)));
  return absl::OkStatus();
}

absl::Status PrintLogits(const LogitsOptions& options) {
  SKERRY_ASSIGN_OR_RETURN(const HuggingFaceModel model, ReadShown(options.model));
  const auto backend = CreateCpuBackend(options.threads);
  const auto count = static_cast<int64_t>(options.tokens.size());
  if (count < 1 || count > model.config.context) {
    return InvalidArgument("--tokens: want 1 to %d, got %d", model.config.context, count);
  }
  SKERRY_ASSIGN_OR_RETURN(auto decoder,
                          Decoder::Create(model.config, model.parameters, count, backend.get()));
  std::vector<float> logits(static_cast<size_t>(count * model.config.vocab));
  SKERRY_RETURN_IF_ERROR(decoder->Logits(options.tokens, 1, logits));
  Json rows = Json::array();
  for (auto at = logits.begin(); at != logits.end(); at += model.config.vocab) {
    rows.push_back(std::vector<float>(at, at + model.config.vocab));
  }
  std::printf("%s\n", rows.dump().c_str());
  return absl::OkStatus();
}

absl::Status GenerateFromModel(const GenerateOptions& options) {
  SKERRY_ASSIGN_OR_RETURN(HuggingFaceModel model, ReadShown(options.model));
  Shorten(model.config, options.context);
  SKERRY_ASSIGN_OR_RETURN(const auto tokenizer, OpenTokenizer(options.model));
  SKERRY_ASSIGN_OR_RETURN(const auto backend, BackendOf(options.device, options.threads));
  SKERRY_ASSIGN_OR_RETURN(auto decoder, Decoder::Create(model.config, model.parameters,
                                                        model.config.context, backend.get()));
  SamplingConfig sampling;
  sampling.tokens = options.tokens;
  sampling.temperature = options.temperature;
  sampling.seed = options.seed;
  ShareLine line("generating");
  SKERRY_ASSIGN_OR_RETURN(
      const std::string text,
      GenerateText(*decoder, *tokenizer, options.prompt, sampling,
                   [&line](int64_t done, int64_t all) { line.Show(done, all); }));
  line.End();
  std::printf("%s\n", text.c_str());
  return absl::OkStatus();
}

absl::Status TrainReference(const ReferenceOptions& options) {
  SKERRY_ASSIGN_OR_RETURN(const RunConfig config, LoadRunConfig(options.config));
  SKERRY_ASSIGN_OR_RETURN(const auto data, TokenDataset::Open(options.data, Verify::kSizes));
  SKERRY_ASSIGN_OR_RETURN(const std::vector<DeviceChoice> devices,
                          ChooseDevices(options.devices, options.device, options.threads));
  SKERRY_ASSIGN_OR_RETURN(const std::vector<float> initial, InitialOf(options, config.model));
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<TeamDevice> team;
  for (const DeviceChoice& device : devices) {
    SKERRY_ASSIGN_OR_RETURN(backends.emplace_back(), device.Create(ComputeTypeOf(config.inner)));
    team.push_back({backends.back().get()});
    std::fprintf(stderr, "reference: %s\n", backends.back()->name().c_str());
  }
  std::fprintf(stderr, "reference: on %s\n", DevicesText(devices).c_str());
  Json curve = Json::array();
  const auto observe = [&](int64_t step, float loss) {
    curve.push_back({step, loss});
    constexpr int64_t kLineEvery = 16;
    if (step % kLineEvery == 0) {
      std::fprintf(stderr, "reference: step %lld/%lld  loss %.4f\n", static_cast<long long>(step),
                   static_cast<long long>(config.steps), static_cast<double>(loss));
    }
  };
  SKERRY_ASSIGN_OR_RETURN(
      const std::vector<float> parameters,
      TrainLocally(config, *data, team, config.steps, observe, initial, options.split));
  ShareLine line("evaluating", !options.json);
  SKERRY_ASSIGN_OR_RETURN(
      const TextLoss evaluation,
      Evaluate(config.model, parameters, *data, options.windows_max, backends.front().get(),
               [&line](int64_t done, int64_t all) { line.Show(done, all); }));
  line.End();
  if (!options.out.empty()) {
    SKERRY_RETURN_IF_ERROR(WriteHuggingFace(options.out, config.model, parameters));
  }
  Print(
      {{"loss", evaluation.loss}, {"curve", curve}}, options.json,
      absl::StrFormat("loss %.4f on held-out text after %d steps", evaluation.loss, config.steps));
  return absl::OkStatus();
}

}  // namespace skerry
