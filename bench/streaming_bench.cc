// How much memory a model larger than it takes on its way into a run and out again: each way in a
// process of its own, whose address space is limited; the model has the layers of a LLaMA of 70
// billion parameters, as many as are asked for, in files of 5 GB. They are sparse, all zeros: what
// is read, digested, cut and written is as long as if they were not, and a chunk that is there
// already is not written again.
//
//   bench_streaming [--dir DIR] [--layers N] [--json FILE]
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "common/status.h"
#include "coordinator/checkpoint_archive.h"
#include "coordinator/import_program.h"
#include "model/export.h"

namespace skerry::bench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLimitBytes = int64_t{1} << 30;  // of a process's addresses
constexpr int64_t kFileBytes = 5'000'000'000;
constexpr double kGiga = 1e-9;

void Must(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "bench_streaming: %s\n", std::string(status.message()).c_str());
  std::exit(2);
}

template <typename T>
T Must(absl::StatusOr<T> value) {
  Must(value.status());
  return *std::move(value);
}

RunConfig Config(int32_t layers) {
  RunConfig config;
  config.model.vocab = 32000;
  config.model.layers = layers;
  config.model.hidden = 8192;
  config.model.heads = 64;
  config.model.kv_heads = 8;
  config.model.ffn = 28672;
  config.model.context = 4096;
  return config;
}

// A Hugging Face directory of bf16 zeros.
void MakeModel(const std::string& directory, const TransformerConfig& model) {
  fs::create_directories(directory);
  std::ofstream(directory + "/config.json") << HuggingFaceConfigText(model, StoredType::kBf16);
  nlohmann::ordered_json header, map;
  int64_t begin = 0;
  int files = 0;
  const auto close_file = [&] {
    if (header.empty()) return;
    const std::string name = absl::StrFormat("model-%05d.safetensors", ++files);
    for (const auto& item : header.items()) map[item.key()] = name;
    const std::string text = header.dump();
    const uint64_t length = text.size();
    std::ofstream out(directory + "/" + name, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), sizeof(length));
    out << text;
    out.close();
    fs::resize_file(directory + "/" + name, sizeof(length) + length + static_cast<size_t>(begin));
    header.clear();
    begin = 0;
  };
  const ParameterLayout layout = ParameterLayout::ForModel(model);
  for (const TensorSlot& slot : layout.tensors()) {
    const int64_t end = begin + 2 * slot.size();
    const auto shape = slot.columns == 1 ? std::vector<int64_t>{slot.rows}
                                         : std::vector<int64_t>{slot.rows, slot.columns};
    header[slot.name] = {{"dtype", "BF16"}, {"shape", shape}, {"data_offsets", {begin, end}}};
    begin = end;
    if (begin >= kFileBytes) close_file();
  }
  close_file();
  std::ofstream(directory + "/model.safetensors.index.json")
      << nlohmann::ordered_json{{"weight_map", map}}.dump();
}

struct Used {
  double seconds = 0;
  double megabytes = 0;  // of memory, at most
};

// In a process of its own; ends the benchmark where that needs more than it may have.
Used Limited(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit = {kLimitBytes, kLimitBytes};
    if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(3);
    work();
    std::_Exit(0);
  }
  int status = 0;
  rusage usage{};
  if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0) {
    Must(ResourceExhausted("a process of at most %d MB of addresses did not do it",
                           kLimitBytes >> 20));
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return {took.count(), static_cast<double>(usage.ru_maxrss) * 1024e-6};
}

std::vector<StageAssignment> Stages(int32_t layers) {
  std::vector<StageAssignment> stages;
  for (int32_t layer = 0; layer < layers; ++layer) stages.push_back({layer, layer + 1, {}});
  return stages;
}

int Run(int argc, char** argv) {
  Bench bench("streaming", argc, argv, {"--dir", "--layers"});
  const fs::path place =
      bench.Option("--dir").empty() ? fs::temp_directory_path().string() : bench.Option("--dir");
  const int32_t layers = bench.Option("--layers").empty() ? 2 : std::stoi(bench.Option("--layers"));
  const fs::path home = place / ("bench_streaming." + std::to_string(getpid()));
  const std::string from = home / "model", run = home / "run", out = home / "out";
  const RunConfig config = Config(layers);
  const int64_t size = ParameterLayout::ForModel(config.model).size();
  MakeModel(from, config.model);
  fs::create_directories(run);

  const Used in = Limited([&] { Must(ImportModel(from, run, config).status()); });
  const Used cut = Limited([&] {
    CheckpointArchive archive(Must(DiskCheckpointFiles::Open(run + "/checkpoints")));
    Must(archive.Prepare(1, 0, config.model, Stages(layers)));
  });
  const Used back = Limited([&] {
    CheckpointArchive archive(Must(DiskCheckpointFiles::Open(run + "/checkpoints")));
    const Checkpoint checkpoint = Must(archive.Load(1));
    ExportOptions options;
    options.type = StoredType::kBf16;
    Must(WriteHuggingFace(
        out, config.model, [&](const auto& take) { return archive.StreamBase(checkpoint, take); },
        options));
  });
  fs::remove_all(home);

  const auto of = static_cast<double>(size);
  bench.Record("parameters", kGiga * of, "billion");
  bench.Record("the model's files", kGiga * 2 * of, "GB");
  bench.Record("a run's state of it", kGiga * 16 * of, "GB");
  bench.Record("addresses a process may have", 1e-6 * kLimitBytes, "MB");
  const auto say = [&](const char* what, const Used& used) {
    bench.AtMost(what, used.megabytes, "MB", 512);
    bench.Record("  it took", used.seconds, "s");
  };
  say("read into a run's first checkpoint", in);
  say("cut into states of a stage a layer", cut);
  say("written as a model again", back);
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}
