#include "node/model_program.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/share_line_program.h"
#include "common/status.h"
#include "kernels/backend.h"
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

}  // namespace

absl::Status EvaluateModel(const EvaluateOptions& options) {
  if (options.initial == !options.model.empty()) {
    return InvalidArgument("want either --model DIR or --initial");
  }
  SKERRY_ASSIGN_OR_RETURN(const auto data, TokenDataset::Open(options.data, Verify::kSizes));
  const auto backend = CreateCpuBackend(options.threads);
  HuggingFaceModel model;
  if (options.initial) {
    SKERRY_ASSIGN_OR_RETURN(const RunConfig config, LoadRunConfig(options.config));
    model.config = config.model;
    const auto layout = ParameterLayout::ForModel(config.model);
    model.parameters.resize(static_cast<size_t>(layout.size()));
    InitializeParameters(config.seed, config.model, layout, model.parameters);
  } else {
    SKERRY_ASSIGN_OR_RETURN(model, ReadHuggingFace(options.model));
    Shorten(model.config, options.context);
  }
  ShareLine line("evaluating");
  const auto show = [&line](int64_t done, int64_t all) { line.Show(done, all); };
  SKERRY_ASSIGN_OR_RETURN(
      const Evaluation evaluation,
      Evaluate(model.config, model.parameters, *data, options.windows_max, backend.get(), show));
  line.End();
  Print({{"loss", evaluation.loss}, {"tokens", evaluation.tokens}}, options.json,
        absl::StrFormat("loss %.4f nat per token over %d held-out tokens", evaluation.loss,
                        evaluation.tokens));
  return absl::OkStatus();
}

absl::Status PrintLogits(const LogitsOptions& options) {
  SKERRY_ASSIGN_OR_RETURN(const HuggingFaceModel model, ReadHuggingFace(options.model));
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
  SKERRY_ASSIGN_OR_RETURN(HuggingFaceModel model, ReadHuggingFace(options.model));
  Shorten(model.config, options.context);
  SKERRY_ASSIGN_OR_RETURN(const auto tokenizer, OpenTokenizer(options.model));
  const auto backend = CreateCpuBackend(options.threads);
  SKERRY_ASSIGN_OR_RETURN(auto decoder, Decoder::Create(model.config, model.parameters,
                                                        model.config.context, backend.get()));
  SamplingConfig sampling;
  sampling.tokens = options.tokens;
  sampling.temperature = options.temperature;
  sampling.seed = options.seed;
  SKERRY_ASSIGN_OR_RETURN(const std::string text,
                          GenerateText(*decoder, *tokenizer, options.prompt, sampling));
  std::printf("%s\n", text.c_str());
  return absl::OkStatus();
}

absl::Status TrainReference(const ReferenceOptions& options) {
  SKERRY_ASSIGN_OR_RETURN(const RunConfig config, LoadRunConfig(options.config));
  SKERRY_ASSIGN_OR_RETURN(const auto data, TokenDataset::Open(options.data, Verify::kSizes));
  SKERRY_ASSIGN_OR_RETURN(const std::vector<DeviceChoice> devices,
                          ChooseDevices(options.devices, options.device, options.threads));
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
  SKERRY_ASSIGN_OR_RETURN(const std::vector<float> parameters,
                          TrainLocally(config, *data, team, config.steps, observe));
  SKERRY_ASSIGN_OR_RETURN(
      const Evaluation evaluation,
      Evaluate(config.model, parameters, *data, options.windows_max, backends.front().get()));
  if (!options.out.empty()) {
    SKERRY_RETURN_IF_ERROR(WriteHuggingFace(options.out, config.model, parameters));
  }
  Print(
      {{"loss", evaluation.loss}, {"curve", curve}}, options.json,
      absl::StrFormat("loss %.4f on held-out text after %d steps", evaluation.loss, config.steps));
  return absl::OkStatus();
}

}  // namespace skerry
