// The coordinator's program on its way from somebody's model to a better one: which tokens `init`
// takes, and what `export` gives of a run: of one that is finished the model that it ended with,
// not that of an older checkpoint.
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "coordinator/import_program.h"
#include "model/export.h"
#include "model/parameter_layout.h"
#include "model/tokenizer.h"
#include "sim/child_process.h"
#include "tests/model/temporary_directory.h"
#include "tests/wire/web_client_storage.h"

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

CommandLine Coordinator(const std::vector<std::string>& arguments) {
  CommandLine command = {fs::read_symlink("/proc/self/exe").parent_path() / "skerry-coordinator"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

bool Does(const std::vector<std::string>& arguments) {
  return RunAndCapture(Coordinator(arguments)).ok();
}

// What it says when it will not.
std::string Refusal(const std::vector<std::string>& arguments) {
  const TemporaryDirectory logs;
  auto process = ChildProcess::Start(Coordinator(arguments), logs.Join("log"));
  REQUIRE(process.ok());
  CHECK(process->Wait() == "exit code 1");
  return ReadFile(logs.Join("log"));
}

// What it says.
std::string Export(const std::string& run, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"export", run};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const auto said = RunAndCapture(Coordinator(arguments));
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

TEST_CASE("Export: what lies at --out is left as it is, unless that is an empty directory",
          "[coordinator][export][error]") {
  const TemporaryDirectory home;
  const std::string run = RunWithCheckpoint(home);
  WriteModel(home.Join("theirs"), 1000);
  std::ofstream(home.Join("theirs.gguf")) << "x";
  fs::create_directory(home.Join("empty"));
  const auto refused = [&](const std::string& to, const std::string& format) {
    const std::string said = Refusal({"export", run, "--format", format, "--out", home.Join(to)});
    INFO(said);
    CHECK(said.find("is there already; --out wants a name that is free") != std::string::npos);
  };

  refused("theirs", "huggingface");
  refused("theirs.gguf", "huggingface");
  refused("theirs.gguf", "gguf");
  refused("theirs", "gguf");
  CHECK(ReadHuggingFace(home.Join("theirs"))->parameters == Values(1000));
  CHECK(ReadFile(home.Join("theirs.gguf")) == "x");
  CHECK(Exported(run, home.Join("empty")) == Values(0));
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

TEST_CASE(
    "Init: a model's own tokenizer, or another one on demand, and what is refused is so before the "
    "model is read",
    "[coordinator][import]") {
  const TemporaryDirectory home;
  TransformerConfig model = SmallModel();
  model.vocab = ByteTokenizer::kVocab;
  const std::vector<float> values(static_cast<size_t>(ParameterLayout::ForModel(model).size()),
                                  0.5f);
  REQUIRE(WriteHuggingFace(home.Join("hf"), model, StreamOf(values), {}).ok());
  fs::create_directory(home.Join("other"));
  // The same tokens, and so a tokenizer that would fit, but not the model's file.
  WriteFile(home.Join("other/tokenizer.json"), ReadFile(home.Join("hf/tokenizer.json")) + "\n");
  WriteFile(home.Join("text"), std::string(4000, 'x'));
  const auto init = [&](const std::string& run, std::vector<std::string> more) {
    more.insert(more.begin(), {"init", home.Join(run), "--from", home.Join("hf")});
    return more;
  };
  const std::vector<std::string> other = {"--data", home.Join("text"), "--tokenizer",
                                          home.Join("other")};

  CHECK(Does(init("own", {"--data", home.Join("text")})));
  CHECK(Refusal(init("refused", other)).find("is not the tokenizer of") != std::string::npos);
  CHECK_FALSE(fs::exists(home.Join("refused/checkpoints/generations/000001.json")));
  auto asked = other;
  asked.push_back("--new-tokenizer");
  CHECK(Does(init("asked", asked)));
  CHECK(ReadFile(home.Join("asked/tokenizer/tokenizer.json")) ==
        ReadFile(home.Join("other/tokenizer.json")));

  const std::vector<std::string> made_by_other = {"--shards", home.Join("asked/data")};
  CHECK(Refusal(init("shards", made_by_other)).find("was not made by the tokenizer of") !=
        std::string::npos);
  CHECK(Does(init("same", {"--shards", home.Join("own/data")})));
}

TEST_CASE("Init: what is refused leaves everything as it was", "[coordinator][import][error]") {
  const TemporaryDirectory home;
  WriteFile(home.Join("text"), std::string(4000, 'x'));
  fs::create_directory(home.Join("there"));
  WriteFile(home.Join("there/mine"), "kept");
  const std::string nowhere = home.Join("nowhere");

  CHECK(Refusal({"init", home.Join("a/b/run"), "--data", nowhere}).find("nowhere") !=
        std::string::npos);
  CHECK_FALSE(fs::exists(home.Join("a")));
  CHECK_FALSE(Refusal({"init", home.Join("there"), "--config", nowhere}).empty());
  CHECK_FALSE(Refusal({"init", home.Join("run"), "--checkpoints", home.Join("place"), "--data",
                       home.Join("text"), nowhere})
                  .empty());
  CHECK_FALSE(fs::exists(home.Join("run")));
  CHECK_FALSE(fs::exists(home.Join("place")));
  const fs::directory_iterator there(home.Join("there"));
  CHECK(std::distance(begin(there), end(there)) == 1);
  CHECK(ReadFile(home.Join("there/mine")) == "kept");
}

TEST_CASE("Init: run.toml of a run that begins with a model may change until somebody joins",
          "[coordinator][import]") {
  const TemporaryDirectory home;
  TransformerConfig model = SmallModel();
  model.vocab = ByteTokenizer::kVocab;
  const std::vector<float> values(static_cast<size_t>(ParameterLayout::ForModel(model).size()),
                                  0.5f);
  REQUIRE(WriteHuggingFace(home.Join("hf"), model, StreamOf(values), {}).ok());
  WriteFile(home.Join("text"), std::string(4000, 'x'));
  const std::string run = home.Join("run");
  REQUIRE(Does({"init", run, "--from", home.Join("hf"), "--data", home.Join("text")}));
  const std::string text = ReadFile(run + "/run.toml");
  const auto with = [&](const std::string& before, const std::string& after) {
    std::string changed = text;
    changed.replace(changed.find(before), before.size(), after);
    WriteFile(run + "/run.toml", changed);
  };
  const std::vector<std::string> ticket = {"ticket", run, "--advertise", "tcp://localhost:7700"};

  with("steps = 256", "steps = 512");
  CHECK(Does(ticket));
  with("layers = ", "layers = 1");
  CHECK(Refusal(ticket).find("another [model]") != std::string::npos);
}

TEST_CASE(
    "Checkpoints and data go to object storage and come back, and what was altered there does not",
    "[coordinator][storage]") {
  const TemporaryDirectory home;
  const std::string run = RunWithCheckpoint(home);
  WriteFile(home.Join("text"), std::string(4000, 'x') + "\n");
  REQUIRE(Does({"data", "prepare", home.Join("text"), "--out", home.Join("data")}));
  ObjectStorage storage;

  REQUIRE(Does({"checkpoints", run, "--push", "s3://bucket/run"}));
  REQUIRE(Does({"data", "push", home.Join("data"), "s3://bucket/data"}));

  const auto fetch = [&](const std::string& to) {
    return std::vector<std::string>{"checkpoints", home.Join(to), "--fetch", "s3://bucket/run"};
  };
  REQUIRE(Does(fetch("saved")));
  CHECK(Exported(home.Join("saved"), home.Join("out")) == Values(0));
  REQUIRE(Does({"data", "fetch", "s3://bucket/data", "--out", home.Join("again")}));
  for (const auto& entry : fs::directory_iterator(home.Join("data"))) {
    const std::string name = entry.path().filename().string();
    CHECK(ReadFile(home.Join("again/" + name)) == ReadFile(entry.path().string()));
  }
  for (auto& [path, bytes] : storage.objects) {
    if (path.find("/chunks/") != std::string::npos) bytes[bytes.size() / 2] ^= 1;
  }
  CHECK(Refusal(fetch("altered")).find("its digest is not its name") != std::string::npos);
  CHECK_FALSE(fs::exists(home.Join("altered/checkpoints/generations/000001.json")));
}
