#include "model/sequence_team.h"

#include <cmath>
#include <cstring>

#include "tests/model/tiny_run.h"

namespace skerry {
namespace {

RunConfig TeamRun(int32_t sequences) {
  RunConfig config = TinyRun();
  config.pipeline.sequences_per_microbatch = sequences;
  return config;
}

// Two stages of the tiny model, each on so many devices, in training.
class TeamedStages {
 public:
  TeamedStages(const RunConfig& config, size_t devices, DType compute = DType::kFloat32)
      : config_(config) {
    for (const TeamStage& part : {TeamStage{0, 2, true, 0}, TeamStage{2, 5, false, 1}}) {
      std::vector<TeamDevice> team;
      for (size_t i = 0; i < devices; ++i) {
        backends_.push_back(CreateCpuBackend(1, compute));
        team.push_back({backends_.back().get()});
      }
      auto made = StageTeam::Create(config, part, team);
      REQUIRE(made.ok());
      stages_.push_back(*std::move(made));
    }
  }

  // An inner step; the losses of its microbatches.
  std::vector<float> Step(int64_t step) {
    std::vector<float> losses;
    for (int32_t m = 0; m < config_.pipeline.microbatches_per_step; ++m)
      losses.push_back(Pass({step, m}));
    for (const auto& stage : stages_) {
      for (int32_t m = 0; m < config_.pipeline.microbatches_per_step; ++m)
        stage->Accumulate({step, m});
      REQUIRE(stage->OptimizerStep(step, config_.pipeline.microbatches_per_step).ok());
      REQUIRE(stage->CheckEqual().ok());
    }
    return losses;
  }

  float Pass(MicrobatchKey key) {
    const TinyText text(config_, key);
    const auto floats = static_cast<size_t>(TokensPerMicrobatch(config_) * config_.model.hidden);
    std::vector<float> first(floats), second(floats), gradient(floats), between(floats);
    REQUIRE(stages_[0]->ForwardFirst(key, text.tokens, first).ok());
    REQUIRE(stages_[1]->Forward(key, first, second).ok());
    const auto loss = stages_[0]->Loss(key, second, text.targets, gradient);
    REQUIRE(loss.ok());
    REQUIRE(stages_[1]->Backward(key, gradient, between).ok());
    REQUIRE(stages_[0]->Backward(key, between, {}).ok());
    return *loss;
  }

  std::vector<float> Parameters() {
    std::vector<float> all;
    for (const auto& stage : stages_) {
      std::vector<float> own(static_cast<size_t>(stage->layout().size()));
      stage->ReadParameters(own);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }
  StageTeam& stage(size_t i) { return *stages_[i]; }

 private:
  RunConfig config_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<std::unique_ptr<StageTeam>> stages_;
};

struct Trained {
  std::vector<float> losses, parameters;
};
Trained Train(const RunConfig& config, size_t devices) {
  TeamedStages stages(config, devices);
  Trained trained;
  for (int64_t step = 0; step < 6; ++step) {
    const auto losses = stages.Step(step);
    trained.losses.insert(trained.losses.end(), losses.begin(), losses.end());
  }
  trained.parameters = stages.Parameters();
  return trained;
}

double Furthest(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
  return most;
}

}  // namespace

TEST_CASE("ShareSequences: equal devices share equally, others by their speed", "[model]") {
  const auto shares = [](int32_t sequences, const std::vector<double>& rates) {
    return ShareSequences(sequences, rates);
  };
  using Shares = std::vector<int32_t>;
  CHECK(shares(4, {50, 50}) == Shares{2, 2});
  CHECK(shares(5, {50, 50}) == Shares{3, 2});
  CHECK(shares(8, {100, 100, 100}) == Shares{3, 3, 2});
  CHECK(shares(9, {200, 100}) == Shares{6, 3});
  CHECK(shares(1, {100, 300}) == Shares{0, 1});
  CHECK(shares(2, {100, 1}) == Shares{2, 0});
  CHECK(shares(3, {7}) == Shares{3});
}

TEST_CASE("StageTeam: several devices train as one does, but for the rounding of sums", "[model]") {
  const auto devices = GENERATE(size_t{2}, size_t{3}, size_t{4});
  const RunConfig config = TeamRun(devices == 3 ? 5 : 4);
  const Trained one = Train(config, 1), several = Train(config, devices);
  INFO(devices << " devices");
  // Six steps of a learning rate of 3e-4 move a parameter by up to 2e-3.
  CHECK(Furthest(one.losses, several.losses) < 1e-5);
  CHECK(Furthest(one.parameters, several.parameters) < 2e-5);
  CHECK(one.parameters != TeamedStages(config, 1).Parameters());
}

TEST_CASE("StageTeam: the bits of several devices are the same from run to run", "[model]") {
  const RunConfig config = TeamRun(5);
  const Trained first = Train(config, 3), second = Train(config, 3);
  CHECK(first.losses == second.losses);
  CHECK(first.parameters == second.parameters);
}

TEST_CASE("StageTeam: devices of different kinds hold the first one's weights", "[model]") {
  const RunConfig config = TeamRun(4);
  const auto slow = CreateReferenceBackend(), fast = CreateCpuBackend(1);
  REQUIRE(slow->numeric_profile() != fast->numeric_profile());
  const std::vector<TeamDevice> devices = {{slow.get(), 1}, {fast.get(), 3}};
  const auto team = StageTeam::Create(config, {0, 5, true, 0}, devices);
  REQUIRE(team.ok());
  const size_t floats = static_cast<size_t>(TokensPerMicrobatch(config) * config.model.hidden);
  std::vector<float> stream(floats), gradient(floats);
  for (int64_t step = 0; step < 3; ++step) {
    const TinyText text(config, {step, 0});
    REQUIRE((*team)->ForwardFirst({step, 0}, text.tokens, stream).ok());
    REQUIRE((*team)->Loss({step, 0}, stream, text.targets, gradient).ok());
    REQUIRE((*team)->Backward({step, 0}, gradient, {}).ok());
    (*team)->Accumulate({step, 0});
    REQUIRE((*team)->OptimizerStep(step, 1).ok());
    CHECK((*team)->CheckEqual().ok());
  }
}

TEST_CASE("StageTeam: with one device it is a StageTrainer, bit for bit", "[model]") {
  const RunConfig config = TeamRun(2);
  TeamedStages team(config, 1);
  const auto backend = CreateCpuBackend(1);
  ChainedStages alone(config, {2, 5}, backend.get(), 1);
  for (int64_t step = 0; step < 2; ++step) {
    CHECK(team.Step(step) == alone.Step(step, {0, 1, 2, 3}));
  }
  std::vector<float> first(static_cast<size_t>(alone.stage(0).layout().size()));
  alone.stage(0).ReadParameters(first);
  const auto all = team.Parameters();
  CHECK(std::equal(first.begin(), first.end(), all.begin()));
}

TEST_CASE("StageTeam: devices that would have no sequence are not used", "[model]") {
  TeamedStages stages(TeamRun(2), 5);
  CHECK(stages.stage(0).devices() == 2);
  CHECK(stages.stage(0).group_name() == "ring of 2 in this process");
  stages.Step(0);
}

TEST_CASE("StageTeam: what changes weights or moments changes them on all devices", "[model]") {
  TeamedStages stages(TeamRun(3), 3);
  StageTeam& stage = stages.stage(1);
  stages.Step(0);
  const std::span<float> host = stage.HostParameters();
  for (float& value : host) value *= 0.5f;
  CHECK(absl::IsDataLoss(stage.CheckEqual()));  // the others do not know yet
  stage.HostParametersChanged();
  CHECK(stage.CheckEqual().ok());
  const std::vector<float> same(static_cast<size_t>(stage.layout().size()), 0.25f);
  stage.WriteParameters(same);
  CHECK(stage.CheckEqual().ok());
  REQUIRE(stage.WriteMoments(3, same, same).ok());
  stages.Step(1);  // which checks that the steps were the same
}

TEST_CASE("StageTeam: lengths and calls that do not fit are refused, and the team goes on",
          "[model][error]") {
  TeamedStages stages(TeamRun(4), 2);
  StageTeam& first = stages.stage(0);
  std::vector<int32_t> tokens(27);
  std::vector<float> stream(28 * 24);
  CHECK(absl::IsInvalidArgument(first.ForwardFirst({0, 0}, tokens, stream)));
  tokens.resize(28);
  CHECK(absl::IsInvalidArgument(
      first.ForwardFirst({0, 0}, tokens, std::span(stream).first(stream.size() - 1))));
  CHECK(absl::IsFailedPrecondition(first.Loss({0, 0}, stream, tokens, stream).status()));
  stages.Step(0);
}

}  // namespace skerry
