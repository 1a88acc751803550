// How much of the sums between two devices that share sequences is hidden behind the last backward
// pass of a step (model/sequence_team.h), on stand-ins that take no processor
// (bench/slow_devices.h): a product takes --product-ms, a sum of all gradients that share of a
// backward pass which the row says. So what is measured is the wiring, and no machine.
//
// Figures are the best of rounds in which the contenders take turns, of the wall time of a step's
// end: the last backward pass and the optimizer's step. `--layers N`.
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
#include "model/sequence_team.h"
#include "routing/cost_model.h"

namespace skerry::bench {
namespace {

constexpr size_t kDevices = 2;
constexpr int kRounds = 5;
constexpr double kHiddenGoal = 0.9;  // where the pass takes longer than the sum

RunConfig ConfigOf(int32_t layers) {
  RunConfig config;
  TransformerConfig& model = config.model;
  model.vocab = 256, model.hidden = 64, model.heads = 4, model.kv_heads = 2;
  model.ffn = 128, model.context = 32, model.layers = layers;
  config.pipeline.sequences_per_microbatch = static_cast<int32_t>(kDevices);
  return config;
}

// A stage in the middle of a run.
class SlowTeam {
 public:
  SlowTeam(const RunConfig& config, Seconds product, Seconds sum)
      : in_(static_cast<size_t>(MicrobatchTokens(config) * config.model.hidden)), out_(in_.size()) {
    Rng rng(1);
    for (float& value : in_) value = static_cast<float>(rng.Uniform() - 0.5);
    std::vector<TeamDevice> devices;
    for (size_t i = 0; i < kDevices; ++i) {
      backends_.push_back(std::make_unique<SlowDevice>(CreateCpuBackend(1), product));
      devices.push_back({backends_.back().get()});
    }
    TeamStage stage;
    stage.last_layer = config.model.layers;
    stage.least_part = 1;
    auto made = SequenceTeam::Create(config, stage, devices, [&](std::span<Backend* const>) {
      GroupBeside beside;
      for (auto& end : MakeThreadRing(kDevices))
        beside.ends.push_back(std::make_unique<SlowGroup>(std::move(end), sum));
      return absl::StatusOr<GroupBeside>(std::move(beside));
    });
    MustBeOk(made.status());
    team_ = *std::move(made);
  }

  double Backward() {
    const MicrobatchKey key = Begin();
    const auto begin = Clock::now();
    MustBeOk(team_->Backward(key, in_, out_));
    const double took = Seconds(Clock::now() - begin).count();
    team_->Discard(key);
    return took;
  }
  double StepEnd(bool in_parts) {
    const MicrobatchKey key = Begin();
    const auto begin = Clock::now();
    for (size_t part = 0; part < team_->parts().size(); ++part) {
      MustBeOk(team_->BackwardPartOf(key, part, in_, out_));
      if (in_parts) team_->SumPart(part, {&key, 1});
    }
    if (!in_parts) team_->Accumulate(key);
    MustBeOk(team_->OptimizerStep(key.step, 1));
    return Seconds(Clock::now() - begin).count();
  }

 private:
  MicrobatchKey Begin() {
    const MicrobatchKey key{next_++, 0};
    MustBeOk(team_->Forward(key, in_, out_));
    return key;
  }

  std::vector<float> in_, out_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::unique_ptr<StageTeam> team_;
  int64_t next_ = 0;
};

void Compare(Bench& bench, int32_t layers, Seconds product, double pass_s, double ratio) {
  SlowTeam team(ConfigOf(layers), product, Seconds(ratio * pass_s));
  double whole = 1e300, parted = 1e300;
  for (int round = 0; round < kRounds; ++round) {
    whole = std::min(whole, team.StepEnd(false));
    parted = std::min(parted, team.StepEnd(true));
  }
  const std::string of = absl::StrFormat("a sum of %.0f %% of the pass: ", 100 * ratio);
  bench.Record(of + "after it", 1e3 * whole, "ms");
  bench.Record(of + "in parts beside it", 1e3 * parted, "ms");
  const double hidden = (whole - parted) / (ratio * pass_s);
  if (ratio < 1) return bench.AtLeast(of + "hidden of it", hidden, "", kHiddenGoal);
  bench.Record(of + "hidden of it", hidden, "");
}

int NumberOf(const Bench& bench, const std::string& option, int otherwise) {
  const std::string text = bench.Option(option);
  return text.empty() ? otherwise : std::atoi(text.c_str());
}

int Run(int argc, char** argv) {
  Bench bench("device sums", argc, argv, {"--product-ms", "--layers"});
  const int32_t layers = NumberOf(bench, "--layers", 16);
  const Seconds product(NumberOf(bench, "--product-ms", 2) / 1e3);
  SlowTeam team(ConfigOf(layers), product, Seconds(0));
  double pass_s = 1e300;
  for (int round = 0; round < kRounds; ++round) pass_s = std::min(pass_s, team.Backward());
  bench.Record("a backward pass", 1e3 * pass_s, "ms");
  for (const double ratio : {0.25, 0.5, 0.9, 1.0, 2.0})
    Compare(bench, layers, product, pass_s, ratio);
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}
