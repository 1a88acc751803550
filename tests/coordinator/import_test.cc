// Somebody's model as a run's first checkpoint.
#include "coordinator/import_program.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <numeric>

#include "common/status.h"
#include "coordinator/checkpoint_archive.h"
#include "model/export.h"
#include "model/stage_state.h"
#include "tests/model/temporary_directory.h"

using namespace skerry;

namespace {

TransformerConfig SmallModel() {
  TransformerConfig config;
  config.vocab = 40;
  config.hidden = 16;
  config.layers = 3;
  config.heads = 4;
  config.kv_heads = 2;
  config.ffn = 24;
  config.context = 64;
  config.qkv_bias = true;
  return config;
}

// A directory with a model whose values count up, in bf16 and several files.
std::vector<float> WriteModel(const std::string& directory) {
  const auto layout = ParameterLayout::ForModel(SmallModel());
  std::vector<float> values(static_cast<size_t>(layout.size()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 200) - 100;
  ExportOptions options;
  options.type = StoredType::kBf16;
  options.file_bytes_max = 5000;
  REQUIRE(WriteHuggingFace(directory, SmallModel(), StreamOf(values), options).ok());
  WriteFile(directory + "/tokenizer.json", "{}");
  return values;
}

}  // namespace

TEST_CASE("Import: the model is the first checkpoint, and any stages begin with it",
          "[coordinator][import]") {
  const TemporaryDirectory directory;
  const auto values = WriteModel(directory.Join("hf"));
  const RunConfig config = *ConfigForModel(directory.Join("hf"));
  CHECK(config.model.qkv_bias);
  CHECK(config.pipeline.skip_ratio == 0);

  const auto checkpoint = ImportModel(directory.Join("hf"), directory.Join("run"), config);

  REQUIRE(checkpoint.ok());
  CHECK(ReadFile(directory.Join("run/tokenizer/tokenizer.json")) == "{}");
  CheckpointArchive archive(*DiskCheckpointFiles::Open(directory.Join("run/checkpoints")));
  const Checkpoint loaded = *archive.Load(1);
  CHECK(loaded.model == config.model);
  CHECK(loaded.step == 0);
  CHECK(archive.Problems(loaded, true).empty());
  CHECK(*archive.BaseOf(loaded) == values);

  StageAssignment first, second;
  first.first_layer = 0;
  first.last_layer = second.first_layer = 2;
  second.last_layer = 3;
  REQUIRE(archive.Prepare(1, 0, config.model, {first, second}).ok());
  const auto layout = ParameterLayout::ForStage(config.model, 2, 3, false);
  const ObjectChunk chunk = archive.Read(1, {"x", 0, 1 << 20});
  const auto state = DecodeState(View(chunk.values), layout.size());
  REQUIRE(state.ok());
  std::vector<float> want(static_cast<size_t>(layout.size()));
  CopyTensors(ParameterLayout::ForModel(config.model), values, layout, want);
  CHECK(state->base == want);
  CHECK(state->inner_steps == 0);
  CHECK(std::accumulate(state->first_moment.begin(), state->first_moment.end(), 0.0f) == 0);
  CHECK(state->first_moment.size() == want.size());
}

TEST_CASE("Import: of the operator's [model] the context counts, within the model's reach",
          "[coordinator][import]") {
  const TemporaryDirectory directory;
  WriteModel(directory.Join("hf"));
  RunConfig wished;
  wished.model.context = 32;
  wished.steps = 512;

  const auto config = ConfigForModel(directory.Join("hf"), wished);

  REQUIRE(config.ok());
  CHECK(config->model.context == 32);
  CHECK(config->model.hidden == 16);
  CHECK(config->steps == 512);
  wished.model.context = 65;
  CHECK(ErrorText(ConfigForModel(directory.Join("hf"), wished).status()).find("reaches 64") !=
        std::string::npos);
}

TEST_CASE("Import: a tensor that does not fit is named, and there is no checkpoint",
          "[coordinator][import][error]") {
  const TemporaryDirectory directory;
  WriteModel(directory.Join("hf"));
  std::string text = ReadFile(directory.Join("hf/config.json"));
  const std::string from = "\"intermediate_size\": 24";
  WriteFile(directory.Join("hf/config.json"),
            text.replace(text.find(from), from.size(), "\"intermediate_size\": 25"));
  const RunConfig config = *ConfigForModel(directory.Join("hf"));

  const auto checkpoint = ImportModel(directory.Join("hf"), directory.Join("run"), config);

  REQUIRE_FALSE(checkpoint.ok());
  CHECK(ErrorText(checkpoint.status()).find("model.layers.0.mlp.gate_proj.weight") !=
        std::string::npos);
  CHECK_FALSE(std::filesystem::exists(directory.Join("run/checkpoints/generations/000001.json")));
}
