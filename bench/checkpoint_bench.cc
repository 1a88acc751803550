// What checkpoints and models cost beside the disk that they are on: each figure is the share of
// that disk's speed, as plain calls reach it with the same bytes in the same minute.
//
//   bench_checkpoint [--dir DIR] [--json FILE]     DIR: on the disk that is asked about
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "common/digest.h"
#include "common/large_memory.h"
#include "common/status.h"
#include "common/tree_digest.h"
#include "coordinator/checkpoint_archive.h"
#include "model/export.h"
#include "model/stage_state.h"

namespace skerry::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 5;
constexpr size_t kPlainBytes = 4 << 20;  // of a plain call
constexpr size_t kTouchedBytes = 1 << 30;
constexpr double kGoal = 0.8;
constexpr double kMega = 1e-6;

void Must(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "bench_checkpoint: %s\n", std::string(status.message()).c_str());
  std::exit(2);
}

template <typename T>
T Must(absl::StatusOr<T> value) {
  Must(value.status());
  return *std::move(value);
}

// Wall time: of a disk that is what there is.
double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TransformerConfig Model() {
  TransformerConfig model;
  model.vocab = 256;
  model.layers = 8;
  model.hidden = 512;
  model.heads = model.kv_heads = 8;
  model.ffn = 1408;
  model.context = 256;
  return model;
}

// Finite, and nothing that a disk could make small.
std::vector<float> Noise(int64_t count, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  uint32_t state = seed;
  for (float& value : values) {
    state = state * 1664525 + 1013904223;
    value = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
  }
  return values;
}

struct Generation {
  Checkpoint checkpoint;
  std::vector<NamedChunk> chunks;
  std::vector<StageAssignment> stages;
};

Generation MakeGeneration(const TransformerConfig& model) {
  Generation made;
  made.checkpoint.generation = 1;
  made.checkpoint.model = model;
  for (int32_t first = 0; first < model.layers; first += model.layers / 2) {
    const int32_t last = first + model.layers / 2;
    const int64_t size = ParameterLayout::ForStage(model, first, last, first == 0).size();
    Bytes state = StateHeader({size, size, 1, 16});
    for (uint32_t array = 0; array < 4; ++array) {
      const auto values = Noise(size, 8 * array + static_cast<uint32_t>(first));
      const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
      state.insert(state.end(), bytes, bytes + 4 * values.size());
    }
    const Digest sum = TreeDigestOf(state);
    state.insert(state.end(), sum.bytes.begin(), sum.bytes.end());
    CheckpointStage stage{first, last, first == 0, std::ssize(state), {}};
    for (size_t at = 0; at < state.size(); at += kPlainBytes) {
      const auto begin = state.begin() + static_cast<ptrdiff_t>(at);
      const auto length = static_cast<ptrdiff_t>(std::min(kPlainBytes, state.size() - at));
      Bytes bytes(begin, begin + length);
      stage.chunks.push_back(DigestOf(std::span<const uint8_t>(bytes)));
      made.chunks.push_back({stage.chunks.back(), MakePayload(std::move(bytes))});
    }
    made.checkpoint.bytes += stage.bytes;
    made.checkpoint.stages.push_back(stage);
    StageAssignment assignment;
    assignment.first_layer = first;
    assignment.last_layer = last;
    made.stages.push_back(assignment);
  }
  return made;
}

void WritePlainly(const std::string& path, std::span<const NamedChunk> chunks) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  bool written = file >= 0;
  for (const NamedChunk& chunk : chunks) {
    const auto bytes = View(chunk.bytes);
    written = written && write(file, bytes.data(), bytes.size()) == std::ssize(bytes);
  }
  if (!written || fsync(file) != 0) Must(Unavailable("%s: cannot be written", path));
  close(file);
}

void ReadPlainly(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  Bytes buffer(kPlainBytes);
  ssize_t count = 0;
  while ((count = read(file, buffer.data(), buffer.size())) > 0) Keep(buffer.data());
  if (count < 0) Must(Unavailable("%s: cannot be read", path));
  close(file);
}

// What is read next comes from the disk. Needs files that are on it.
void Forget(const fs::path& directory) {
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    const int file = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0 || fsync(file) != 0 || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0) {
      Must(Unavailable("%s: stays in memory", entry.path().string()));
    }
    close(file);
  }
}

struct Times {
  double plain_write = 1e300, plain_read = 1e300;              // of as many bytes as a generation
  double plain_model_write = 1e300, plain_model_read = 1e300;  // as a model
  double digest = 1e300;                                       // of a generation, once
  double save = 1e300, verify = 1e300, prepare = 1e300;        // of a generation
  double write = 1e300, read = 1e300;                          // of a model
};

void Measure(const fs::path& home, Generation& generation, std::span<const float> parameters,
             Times& best) {
  const auto measure = [](double& least, const std::function<void()>& work) {
    // A virtual machine gives memory back that it does not use, and takes it again at a cost that
    // is no disk's: each, plainly or not, finds as much as it takes.
    Keep(LargeVector<uint8_t>(kTouchedBytes).data());
    least = std::min(least, Seconds(work));
  };
  const std::string plain = home / "plain/file", small = home / "plain/small", run = home / "run",
                    model = home / "model";
  for (const char* name : {"plain", "run", "model"}) fs::remove_all(home / name);
  fs::create_directories(home / "plain");
  sync();
  const std::span<const NamedChunk> chunks(generation.chunks);
  const size_t as_model = parameters.size_bytes() / kPlainBytes;
  measure(best.plain_write, [&] { WritePlainly(plain, chunks); });
  measure(best.plain_model_write, [&] { WritePlainly(small, chunks.first(as_model)); });
  measure(best.digest, [&] {
    for (const NamedChunk& chunk : chunks) Keep(DigestOf(View(chunk.bytes)));
  });
  CheckpointArchive archive(Must(DiskCheckpointFiles::Open(run)));
  measure(best.save, [&] {
    // As many at a time as a coordinator gathers.
    for (std::span rest(generation.chunks); !rest.empty();) {
      const size_t some = std::min(rest.size(), kChunksTogether);
      Must(archive.Put(rest.first(some)));
      rest = rest.subspan(some);
    }
    Must(archive.Commit(generation.checkpoint));
  });
  Forget(home);
  measure(best.plain_read, [&] { ReadPlainly(plain); });
  measure(best.plain_model_read, [&] { ReadPlainly(small); });
  measure(best.verify, [&] {
    const auto problems = archive.Problems(generation.checkpoint, true);
    if (!problems.empty()) Must(DataLoss("%s", problems.front()));
  });
  Forget(home);
  measure(best.prepare,
          [&] { Must(archive.Prepare(1, 1, generation.checkpoint.model, generation.stages)); });
  const TransformerConfig& config = generation.checkpoint.model;
  measure(best.write, [&] { Must(WriteHuggingFace(model, config, StreamOf(parameters), {})); });
  Forget(home);
  measure(best.read, [&] { Keep(Must(ReadHuggingFace(model)).parameters.data()); });
}

int Run(int argc, char** argv) {
  Bench bench("checkpoint", argc, argv, {"--dir"});
  const fs::path place =
      bench.Option("--dir").empty() ? fs::temp_directory_path().string() : bench.Option("--dir");
  const fs::path home = place / ("bench_checkpoint." + std::to_string(getpid()));
  const TransformerConfig model = Model();
  Generation generation = MakeGeneration(model);
  const std::vector<float> parameters = Noise(ParameterLayout::ForModel(model).size(), 77);
  Times best;
  for (int round = 0; round < kRounds; ++round) Measure(home, generation, parameters, best);
  fs::remove_all(home);

  const auto megabytes = kMega * static_cast<double>(generation.checkpoint.bytes);
  const auto model_megabytes = kMega * static_cast<double>(4 * parameters.size());
  // What the disk can: of two sizes the better one.
  const double disk_write =
      std::max(megabytes / best.plain_write, model_megabytes / best.plain_model_write);
  const double disk_read =
      std::max(megabytes / best.plain_read, model_megabytes / best.plain_model_read);
  bench.Record("a generation", megabytes, "MB");
  bench.Record("the disk, written plainly", disk_write, "MB/s");
  bench.Record("the disk, read plainly", disk_read, "MB/s");
  bench.Record("digests, one core", megabytes / best.digest, "MB/s");
  const auto of = [&](const char* what, double rate, double disk) {
    bench.Record(what, rate, "MB/s");
    bench.AtLeast("  of the disk's speed", rate / disk, "", kGoal);
  };
  of("a generation saved", megabytes / best.save, disk_write);
  of("a generation read and verified", megabytes / best.verify, disk_read);
  of("gone back to it: read, verified, written", megabytes / best.prepare,
     1 / (1 / disk_read + 1 / disk_write));
  of("a model's directory written", model_megabytes / best.write, disk_write);
  of("a model's directory read", model_megabytes / best.read, disk_read);
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}
