// What `export` gives of a run: of one that is finished the model that it ended with, not that of
// an older checkpoint.
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>

#include "coordinator/import_program.h"
#include "model/export.h"
#include "model/safetensors.h"
#include "sim/child_process.h"
#include "tests/model/temporary_directory.h"

using namespace skerry;

namespace {

namespace fs = std::filesystem;

TransformerConfig SmallModel() {
  TransformerConfig config;
  config.vocab = 40;
  config.hidden = 16;
  config.layers = 3;
  config.heads = config.kv_heads = 4;
  config.ffn = 24;
  config.context = 64;
  return config;
}

std::vector<float> Values(float first) {
  std::vector<float> values(static_cast<size_t>(ParameterLayout::ForModel(SmallModel()).size()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i % 200);
  return values;
}

void WriteModel(const std::string& directory, float first) {
  const auto values = Values(first);
  REQUIRE(WriteHuggingFace(directory, SmallModel(), StreamOf(values), {}).ok());
}

// A run with one checkpoint, of values from 0 on.
std::string RunWithCheckpoint(const TemporaryDirectory& home) {
  WriteModel(home.Join("hf"), 0);
  const RunConfig config = *ConfigForModel(home.Join("hf"));
  REQUIRE(ImportModel(home.Join("hf"), home.Join("run"), config).ok());
  return home.Join("run");
}

// What it says, and what it made.
std::string Export(const std::string& run, std::vector<std::string> more) {
  CommandLine command = {fs::read_symlink("/proc/self/exe").parent_path() / "skerry-coordinator",
                         "export", run};
  command.insert(command.end(), more.begin(), more.end());
  const auto said = RunAndCapture(command);
  INFO(said.status());
  REQUIRE(said.ok());
  return *said;
}

std::vector<float> Exported(const std::string& run, const std::string& to,
                            std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--out", to});
  Export(run, more);
  return ReadHuggingFace(to)->parameters;
}

}  // namespace

TEST_CASE("Export: of a run that goes on it is the newest checkpoint's model",
          "[coordinator][export]") {
  const TemporaryDirectory home;
  const std::string run = RunWithCheckpoint(home);

  CHECK(Exported(run, home.Join("out")) == Values(0));
}

TEST_CASE("Export: of a finished run it is the model that it ended with, unless another is named",
          "[coordinator][export]") {
  const TemporaryDirectory home;
  const std::string run = RunWithCheckpoint(home);
  WriteModel(run + "/model", 1000);

  CHECK(Exported(run, home.Join("final")) == Values(1000));
  CHECK(Exported(run, home.Join("older"), {"--checkpoint", "1"}) == Values(0));
  CHECK(Export(run, {}).find("the final model") != std::string::npos);
  CHECK(fs::exists(run + "/model-final/model.safetensors"));
}

TEST_CASE("Export: GGUF of a finished run holds the values that it ended with",
          "[coordinator][export]") {
  const TemporaryDirectory home;
  const std::string run = RunWithCheckpoint(home);
  WriteModel(run + "/model", 1000);
  const std::vector<std::string> type = {"--format", "gguf", "--type", "f32", "--out"};
  const auto to = [&](const std::string& name) {
    std::vector<std::string> more = type;
    more.push_back(home.Join(name));
    return more;
  };

  Export(run, to("final.gguf"));
  auto older = to("older.gguf");
  older.insert(older.end(), {"--checkpoint", "1"});
  Export(run, older);

  const std::string final_bytes = ReadFile(home.Join("final.gguf"));
  CHECK(final_bytes.size() == ReadFile(home.Join("older.gguf")).size());
  CHECK(final_bytes != ReadFile(home.Join("older.gguf")));
  // The last tensor in the file is the head or the last layer's; its last value tells.
  float last = 0;
  std::memcpy(&last, final_bytes.data() + final_bytes.size() - sizeof(last), sizeof(last));
  CHECK(last >= 1000);
}
