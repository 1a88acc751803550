// What a ladder (model/ladder_block.h) hides of the sums between two devices that share every
// layer's tensors, on stand-ins that take no processor: after each product its device sleeps until
// that has taken --product-ms, as one would that computes elsewhere, and after each sum its member
// until that has taken so many ms, as one would that waits for a line. So what is measured is the
// wiring, and no machine. Real values go through both; the model is tiny.
//
// Figures are the best of rounds in which the contenders take turns, of the wall time of one
// microbatch, there and back. `--sum-ms X`: only so long sums; `--layers N`, `--ladder N`.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "bench/slow_devices.h"
#include "bench/statistics.h"
#include "common/rng.h"
#include "common/status.h"
#include "kernels/group/device_threads.h"
#include "kernels/group/ring_group.h"
#include "kernels/group/sum_thread.h"
#include "model/stage_trainer.h"
#include "model/tensor_split.h"
#include "routing/cost_model.h"

namespace skerry::bench {
namespace {

constexpr size_t kDevices = 2;
constexpr int kRounds = 5;

struct BenchModel {
  int32_t layers, ladder;
  double product_ms;
};

RunConfig ConfigOf(const BenchModel& of, bool has_ladder) {
  RunConfig config;
  TransformerConfig& model = config.model;
  model.vocab = 256, model.hidden = 64, model.heads = 4, model.kv_heads = 2;
  model.ffn = 128, model.context = 32, model.layers = of.layers;
  model.ladder = has_ladder ? of.ladder : 0;
  config.pipeline.sequences_per_microbatch = 1;
  return config;
}

// A stage in the middle of a run, on two devices that goes forward and back.
class SlowLine {
 public:
  SlowLine(const RunConfig& config, Seconds product, Seconds sum, bool hides)
      : in_(static_cast<size_t>(MicrobatchTokens(config) * config.model.hidden)), out_(in_.size()) {
    const int32_t layers = config.model.layers;
    auto split = TensorSplit::Of(config, 0, layers, false, kDevices);
    MustBeOk(split.status());
    Rng rng(1);
    for (float& value : in_) value = static_cast<float>(rng.Uniform() - 0.5);
    std::vector<float> whole(static_cast<size_t>(split->whole().size()));
    for (float& value : whole) value = static_cast<float>(0.05 * rng.Normal());
    for (auto& ring : MakeThreadRing(kDevices)) {
      const auto i = static_cast<int32_t>(ends_.size());
      End& end = ends_.emplace_back();
      end.backend = std::make_unique<SlowDevice>(CreateCpuBackend(1), product);
      end.group = std::make_unique<SlowGroup>(std::move(ring), sum);
      if (hides) end.thread = std::make_unique<SumThread>(end.group.get());
      end.sum = std::make_unique<BranchSum>(end.group.get(), end.thread.get(), end.backend.get());
      DeviceShare share;
      share.tensors = {kDevices, i};
      share.sum = end.sum.get();
      auto made = StageTrainer::Create(config, 0, layers, false, end.backend.get(), 0, share);
      MustBeOk(made.status());
      end.trainer = *std::move(made);
      split->Write(i, *end.backend, whole, end.trainer->weights());
      end.trainer->WeightsChanged();
    }
  }

  // Seconds of a microbatch.
  double Turn() {
    const MicrobatchKey key{0, next_++};
    const auto begin = Clock::now();
    MustBeOk(threads_.RunAll([&](size_t i) -> absl::Status {
      StageTrainer& trainer = *ends_[i].trainer;
      const auto own = [&](std::vector<float>& values) {
        return i == 0 ? std::span<float>(values) : std::span<float>();
      };
      SKERRY_RETURN_IF_ERROR(trainer.Forward(key, in_, own(out_)));
      SKERRY_RETURN_IF_ERROR(trainer.Backward(key, in_, own(out_)));
      trainer.Accumulate(key);
      return absl::OkStatus();
    }));
    return Seconds(Clock::now() - begin).count();
  }
  double best = 1e300;

 private:
  struct End {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Group> group;
    std::unique_ptr<SumThread> thread;
    std::unique_ptr<BranchSum> sum;
    std::unique_ptr<StageTrainer> trainer;
  };
  std::vector<End> ends_;
  std::vector<float> in_, out_;
  DeviceThreads threads_{kDevices};
  int32_t next_ = 0;
};

void Compare(Bench& bench, const BenchModel& model, double sum_ms) {
  const Seconds sum(sum_ms / 1e3), product(model.product_ms / 1e3);
  std::vector<std::unique_ptr<SlowLine>> lines;
  lines.push_back(std::make_unique<SlowLine>(ConfigOf(model, false), product, sum, false));
  lines.push_back(std::make_unique<SlowLine>(ConfigOf(model, true), product, sum, false));
  lines.push_back(std::make_unique<SlowLine>(ConfigOf(model, true), product, sum, true));
  for (const auto& line : lines) line->Turn();
  for (int round = 0; round < kRounds; ++round) {
    for (const auto& line : lines) line->best = std::min(line->best, line->Turn());
  }
  const std::string of = absl::StrFormat("sums of %g ms: ", sum_ms);
  const char* names[] = {"as in LLaMA", "a ladder, waited for", "a ladder, hidden"};
  for (size_t i = 0; i < lines.size(); ++i) {
    bench.Record(of + names[i], 1e3 * lines[i]->best, "ms");
  }
  if (sum_ms == 0) return;
  const double waited = 1e3 * (lines[1]->best - lines[2]->best);
  bench.Record(of + "saved of all sums", waited / (4 * model.layers * sum_ms), "");
}

int NumberOf(const Bench& bench, const std::string& option, int otherwise) {
  const std::string text = bench.Option(option);
  return text.empty() ? otherwise : std::atoi(text.c_str());
}

int Run(int argc, char** argv) {
  Bench bench("ladder", argc, argv, {"--sum-ms", "--product-ms", "--layers", "--ladder"});
  const BenchModel model = {NumberOf(bench, "--layers", 8), NumberOf(bench, "--ladder", 4),
                            static_cast<double>(NumberOf(bench, "--product-ms", 4))};
  if (model.layers < 1 || model.ladder < 1 || model.layers % model.ladder != 0) {
    std::fprintf(stderr, "bench: --layers must be a multiple of --ladder\n");
    return 2;
  }
  const std::string only = bench.Option("--sum-ms");
  std::vector<double> delays = {0, 2, 4, 8, 16};
  if (!only.empty()) delays = {std::atof(only.c_str())};
  for (const double delay : delays) Compare(bench, model, delay);
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}
