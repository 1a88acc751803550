// A stage that is the whole model: its stream stays where it is computed.
#include "model/stage_team.h"
#include "tests/model/disk_directory.h"
#include "tests/model/tiny_run.h"

namespace skerry {
namespace {

struct Team {
  TeamStage stage = {0, 5, true};
  size_t devices = 1;
  DType compute = DType::kFloat32;
  StashParking parking = {};
};

struct Trained {
  std::vector<float> losses, parameters;
  bool operator==(const Trained&) const = default;
};

// Two steps, the microbatches of each under way at a time and in any order; `by_host`: streams go
// through the host.
Trained TrainedBy(const RunConfig& config, const Team& what, bool by_host) {
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<TeamDevice> devices;
  for (size_t i = 0; i < what.devices; ++i) {
    backends.push_back(CreateCpuBackend(1, what.compute));
    devices.push_back({backends.back().get(), 1, nullptr, what.parking});
  }
  const auto team = *StageTeam::Create(config, what.stage, devices);
  const auto floats = static_cast<size_t>(TokensPerMicrobatch(config) * config.model.hidden);
  std::vector<std::vector<float>> streams(4, std::vector<float>(by_host ? floats : 0));
  Trained trained;
  for (int64_t step = 0; step < 2; ++step) {
    for (const int32_t m : {0, 1, 2, 3}) {
      const TinyText text(config, {step, m});
      REQUIRE(team->ForwardFirst({step, m}, text.tokens, streams[static_cast<size_t>(m)]).ok());
    }
    const auto loss = [&](int32_t m) {
      auto& stream = streams[static_cast<size_t>(m)];
      const auto nats = team->Loss({step, m}, stream, TinyText(config, {step, m}).targets, stream);
      REQUIRE(nats.ok());
      trained.losses.push_back(*nats);
    };
    const auto back = [&](int32_t m) {
      REQUIRE(team->Backward({step, m}, streams[static_cast<size_t>(m)], {}).ok());
    };
    loss(2), loss(0), back(2), loss(3), back(0), loss(1), back(1), back(3);
    for (const int32_t m : {0, 1, 2, 3}) team->Accumulate({step, m});
    REQUIRE(team->OptimizerStep(step, 4).ok());
  }
  trained.parameters.resize(static_cast<size_t>(team->layout().size()));
  team->ReadParameters(trained.parameters);
  return trained;
}

}  // namespace

TEST_CASE("Whole model: a stream that stays on its devices has the bits of one that leaves them",
          "[model]") {
  RunConfig config = TinyRun();
  config.model.ffn = 22;
  Team team;
  SECTION("one device") {
    config.model.ladder = GENERATE(0, 5);
    team.compute = GENERATE(DType::kFloat32, DType::kBfloat16);
    team.stage.recomputed_layers = GENERATE(0, 2, 5);
  }
  SECTION("several by sequences") {
    team.devices = GENERATE(2, 3);
    config.pipeline.sequences_per_microbatch = 3;
  }
  SECTION("several by tensors") {
    team.devices = 2;
    team.stage.split = DeviceSplit::kTensors;
    team.compute = GENERATE(DType::kFloat32, DType::kBfloat16);
    config.model.ladder = GENERATE(0, 5);
  }
  CHECK(TrainedBy(config, team, false) == TrainedBy(config, team, true));
}

TEST_CASE("Whole model: its stream goes where its stash is parked", "[model][spill]") {
  const RunConfig config = TinyRun();
  const DiskDirectory directory;
  Team parked;
  parked.parking = {2, 2, directory.path(), true};
  CHECK(TrainedBy(config, parked, false) == TrainedBy(config, {}, true));
}

TEST_CASE("Whole model: of a part of one a stream is wanted", "[model][error]") {
  const RunConfig config = TinyRun();
  const auto backend = CreateCpuBackend(1);
  const std::vector<TeamDevice> device = {{backend.get()}};
  const TinyText text(config, {0, 0});
  const auto first = *StageTeam::Create(config, {0, 4, true}, device);
  CHECK_FALSE(first->KeepsStream());
  CHECK(absl::IsInvalidArgument(first->ForwardFirst({0, 0}, text.tokens, {})));
  const auto whole = *StageTeam::Create(config, {0, 5, true}, device);
  CHECK(whole->KeepsStream());
  std::vector<float> less(7);
  CHECK(absl::IsInvalidArgument(whole->ForwardFirst({0, 0}, text.tokens, less)));
  REQUIRE(whole->ForwardFirst({0, 0}, text.tokens, {}).ok());
  CHECK(absl::IsInvalidArgument(whole->Loss({0, 0}, less, text.targets, {}).status()));
  CHECK(whole->Loss({0, 0}, {}, text.targets, {}).ok());
  CHECK(absl::IsInvalidArgument(whole->Backward({0, 0}, less, {})));
  CHECK(whole->Backward({0, 0}, {}, {}).ok());
}

}  // namespace skerry
