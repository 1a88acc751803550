// What it costs a stage that some of its stashes lie on a disk (model/stash_pool.h), beside one
// that has memory for all of them and one that recomputes its layers instead.
//
// A stage in the middle of a run with a window of eight on the processor: one forward and one
// backward pass in turn, the oldest microbatch first. The four take turns by rounds of twelve
// microbatches, of which the first two are left out (what they find was moved while others
// computed); figures are medians over rounds of each round's median wall time. `--directory DIR`:
// on which disk, `--threads N`, `--layers N`, `--context N`, `--compute bf16`.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "bench/statistics.h"
#include "common/rng.h"
#include "common/status.h"
#include "kernels/stash_store.h"
#include "model/stage_trainer.h"
#include "routing/cost_model.h"

namespace skerry::bench {
namespace {

constexpr int32_t kWindow = 8;
constexpr int kRounds = 7, kMicrobatches = 12, kLeftOut = 2;
constexpr double kSpeedGoal = 0.95;

double Now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

RunConfig ConfigOf(int32_t layers, int32_t context) {
  RunConfig config;
  TransformerConfig& model = config.model;
  model.vocab = 4096, model.hidden = 768, model.heads = 12, model.kv_heads = 4;
  model.ffn = 2048, model.context = context, model.layers = layers + 1;
  config.pipeline.sequences_per_microbatch = 1;
  return config;
}

// A stage that goes forward and back in turn, a window full of microbatches under way.
class Walker {
 public:
  Walker(const RunConfig& config, Backend* backend, int32_t recomputed, const StashParking& parking)
      : in_(static_cast<size_t>(MicrobatchTokens(config) * config.model.hidden)), out_(in_.size()) {
    auto made = StageTrainer::Create(config, 1, config.model.layers, false, backend, recomputed,
                                     {0, {}, nullptr, parking});
    MustBeOk(made.status());
    trainer_ = *std::move(made);
    Rng rng(1);
    for (float& value : in_) value = static_cast<float>(rng.Uniform() - 0.5);
    while (next_ < kWindow) Forward();
  }

  // Seconds of a backward pass and the next forward pass.
  double Turn() {
    const double begin = Now();
    const MicrobatchKey key{0, back_++};
    MustBeOk(trainer_->Backward(key, in_, out_));
    trainer_->Accumulate(key);
    Forward();
    return Now() - begin;
  }
  int64_t held_bytes() const { return trainer_->HeldBytes(); }

 private:
  void Forward() { MustBeOk(trainer_->Forward({0, next_++}, in_, out_)); }

  std::unique_ptr<StageTrainer> trainer_;
  std::vector<float> in_, out_;
  int32_t next_ = 0, back_ = 0;
};

struct Contender {
  std::string name;
  Walker walker;
  std::vector<double> rounds = {};  // seconds a microbatch
};

void RunRounds(std::vector<Contender>& contenders) {
  for (int round = 0; round < kRounds; ++round) {
    for (Contender& contender : contenders) {
      std::vector<double> turns;
      for (int i = 0; i < kMicrobatches; ++i) {
        const double seconds = contender.walker.Turn();
        if (i >= kLeftOut) turns.push_back(seconds);
      }
      contender.rounds.push_back(Median(turns));
    }
  }
}

// Bytes this process gave a disk, and took from one.
double MovedBytes() {
  std::ifstream io("/proc/self/io");
  double moved = 0;
  for (std::string key; io >> key;) {
    double bytes = 0;
    io >> bytes;
    if (key == "read_bytes:" || key == "write_bytes:") moved += bytes;
  }
  return moved;
}

int NumberOf(const Bench& bench, const std::string& option, int otherwise) {
  const std::string text = bench.Option(option);
  return text.empty() ? otherwise : std::atoi(text.c_str());
}

int Run(int argc, char** argv) {
  Bench bench("spill", argc, argv,
              {"--directory", "--threads", "--layers", "--context", "--compute"});
  std::string directory = bench.Option("--directory");
  if (directory.empty()) directory = std::filesystem::temp_directory_path().string();
  const RunConfig config =
      ConfigOf(NumberOf(bench, "--layers", 4), NumberOf(bench, "--context", 512));
  const int32_t layers = config.model.layers - 1;
  const auto rates = MeasureStashFile(directory);
  MustBeOk(rates.status());
  bench.Record("the disk writes", rates->write_bytes_per_s / 1e6, "MB/s");
  bench.Record("the disk reads", rates->read_bytes_per_s / 1e6, "MB/s");
  const DType type = bench.Option("--compute") == "bf16" ? DType::kBfloat16 : DType::kFloat32;
  const auto backend = CreateCpuBackend(NumberOf(bench, "--threads", 1), type);
  const auto parked = [&](int32_t residents) {
    return StashParking{residents, kWindow - residents, directory};
  };
  std::vector<Contender> contenders;
  contenders.push_back({"all resident", Walker(config, backend.get(), 0, {})});
  contenders.push_back({"2 resident", Walker(config, backend.get(), 0, parked(2))});
  contenders.push_back({"3 resident", Walker(config, backend.get(), 0, parked(3))});
  contenders.push_back({"recomputed", Walker(config, backend.get(), layers, {})});
  const double before = MovedBytes();
  RunRounds(contenders);
  const double moved = MovedBytes() - before;
  for (const Contender& contender : contenders) {
    bench.Record(contender.name + ": memory",
                 static_cast<double>(contender.walker.held_bytes()) / 1e6, "MB");
    bench.Record(contender.name + ": a microbatch", 1e3 * Median(contender.rounds), "ms");
  }
  bench.Record("moved, a microbatch that is parked", moved / (2 * kRounds * kMicrobatches) / 1e6,
               "MB");
  for (size_t i = 1; i < contenders.size(); ++i) {
    std::vector<double> speeds;
    for (int round = 0; round < kRounds; ++round) {
      const auto r = static_cast<size_t>(round);
      speeds.push_back(contenders[0].rounds[r] / contenders[i].rounds[r]);
    }
    const bool is_parked = i + 1 < contenders.size();
    const std::string what = contenders[i].name + ": speed of all resident";
    if (is_parked) bench.AtLeast(what, Median(speeds), "", kSpeedGoal);
    if (!is_parked) bench.Record(what, Median(speeds), "");
  }
  for (size_t i = 1; i + 1 < contenders.size(); ++i) {
    bench.AtLeast(contenders[i].name + ": speed of recomputed",
                  Median(contenders.back().rounds) / Median(contenders[i].rounds), "", 1);
  }
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}
