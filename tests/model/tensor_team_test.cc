// Devices that share the tensors of every layer: together they are one.
#include "model/tensor_team.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "common/status.h"
#include "tests/model/disk_directory.h"
#include "tests/model/split_stages.h"

namespace skerry {
namespace {

std::vector<float> FloatsOf(int64_t size, float first) {
  std::vector<float> values(static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + 1e-3f * static_cast<float>(i);
  return values;
}

void CutFileIn(const std::string& directory) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.rfind(directory, 0) == 0) REQUIRE(truncate(entry.path().c_str(), 0) == 0);
  }
}

}  // namespace

TEST_CASE("TensorTeam: devices compute and train as one does, but for the rounding of sums",
          "[model]") {
  const auto devices = GENERATE(size_t{2}, size_t{4});
  RunConfig config = SplitRun();
  config.model.qkv_bias = GENERATE(false, true);
  config.model.tied_head = config.model.qkv_bias;
  config.inner.optimizer = GENERATE(InnerOptimizer::kAdamW, InnerOptimizer::kSgd);
  if (config.inner.optimizer == InnerOptimizer::kSgd) config.inner.learning_rate = 0.03f;
  INFO(devices << " devices, biases " << config.model.qkv_bias);
  SplitStages one(config, 1), split(config, devices);
  REQUIRE(split.stage(0).devices() == static_cast<int32_t>(devices));
  REQUIRE(split.stage(1).devices() == static_cast<int32_t>(devices));
  const std::vector<float> initial = one.ParametersOf(1);
  for (size_t i = 0; i < 2; ++i) CHECK(split.ParametersOf(i) == one.ParametersOf(i));

  CHECK(std::abs(one.Pass({9, 0}) - split.Pass({9, 0})) < 1e-5);
  CHECK(Furthest(one.out(), split.out()) < 1e-5);
  for (size_t i = 0; i < 2; ++i) {
    const auto of_one = one.TakeGradients(i), of_all = split.TakeGradients(i);
    CHECK(FurthestTensor(one.stage(i).layout(), of_one, of_all) < 1e-4);
  }

  CHECK(Furthest(one.Steps(0, 5), split.Steps(0, 5)) < 1e-5);
  for (size_t i = 0; i < 2; ++i) CHECK(Furthest(one.ParametersOf(i), split.ParametersOf(i)) < 2e-5);
  CHECK(Furthest(one.ParametersOf(1), initial) > 2e-4);
}

TEST_CASE("TensorTeam: in bf16 gradients are one device's within the type's rounding", "[model]") {
  RunConfig config = SplitRun();
  config.inner.compute = InnerCompute::kBfloat16;
  const SplitKind bf16 = {[] { return CreateReferenceBackend(DType::kBfloat16); }};
  SplitStages one(config, 1, bf16), split(config, 2, bf16);
  CHECK(std::abs(one.Pass({0, 0}) - split.Pass({0, 0})) < 1e-2);
  for (size_t i = 0; i < 2; ++i) {
    const auto of_one = one.TakeGradients(i), of_all = split.TakeGradients(i);
    CHECK(FurthestTensor(one.stage(i).layout(), of_one, of_all) < 0.05);
  }
  split.Step(1);  // and norms stay equal
}

TEST_CASE("TensorTeam: the bits are the same from run to run, and with moments on the host",
          "[model]") {
  const RunConfig config = SplitRun();
  SplitStages first(config, 4), second(config, 4), offloaded(config, 4, {.has_host = true});
  const auto losses = first.Steps(0, 3);
  CHECK(losses == second.Steps(0, 3));
  CHECK(losses == offloaded.Steps(0, 3));
  for (size_t i = 0; i < 2; ++i) {
    CHECK(first.StateOf(i) == second.StateOf(i));
    CHECK(first.StateOf(i) == offloaded.StateOf(i));
  }
}

TEST_CASE("TensorTeam: what was saved of so many devices goes on on others, bit for bit",
          "[model]") {
  const RunConfig config = SplitRun();
  SplitStages two(config, 2);
  two.Steps(0, 2);
  const auto others = GENERATE(size_t{1}, size_t{2}, size_t{4});
  SplitStages other(config, others);
  for (size_t i = 0; i < 2; ++i) {
    const auto saved = two.StateOf(i);
    StageTeam& stage = other.stage(i);
    const std::span<float> host = stage.HostParameters();
    std::copy(saved.parameters.begin(), saved.parameters.end(), host.begin());
    stage.HostParametersChanged();
    REQUIRE(stage.WriteMoments(two.stage(i).optimizer_steps(), saved.first, saved.second).ok());
    CHECK(other.StateOf(i) == saved);
    CHECK(stage.CheckEqual().ok());
  }
  const auto losses = two.Step(2);
  if (others == 2) {
    CHECK(other.Step(2) == losses);
    for (size_t i = 0; i < 2; ++i) CHECK(other.StateOf(i) == two.StateOf(i));
  }
  StageTeam& stage = other.stage(1);
  const std::vector<float> values = FloatsOf(stage.layout().size(), -3);
  stage.WriteParameters(values);
  CHECK(other.ParametersOf(1) == values);
  CHECK(std::equal(values.begin(), values.end(), stage.HostParameters().begin()));
  const std::span<const float> less = std::span<const float>(values).first(values.size() - 1);
  CHECK(absl::IsInvalidArgument(stage.WriteMoments(1, less, values)));
}

TEST_CASE("TensorTeam: a step on sums from elsewhere is a step, and leaves what came since",
          "[model]") {
  const RunConfig config = SplitRun();
  SplitStages here(config, 2), elsewhere(config, 2);
  elsewhere.Pass({0, 0});
  elsewhere.Pass({0, 1});
  const auto sums = elsewhere.TakeGradients(1);
  here.Pass({1, 0});
  const auto since = [&] {
    SplitStages again(config, 2);
    again.Pass({1, 0});
    return again.TakeGradients(1);
  }();
  REQUIRE(here.stage(1).OptimizerStepOn(sums, 0, 2).ok());
  CHECK(here.TakeGradients(1) == since);
  SplitStages stepped(config, 2);
  stepped.Step(0);
  CHECK(here.StateOf(1) == stepped.StateOf(1));
}

TEST_CASE("TensorTeam: clipping counts once what all devices hold", "[model]") {
  RunConfig config = SplitRun();
  config.inner.optimizer = InnerOptimizer::kSgd;
  config.inner.learning_rate = 0.03f;
  SplitStages one(config, 1), split(config, 4);
  const ParameterLayout& layout = one.stage(1).layout();
  std::vector<float> sums(static_cast<size_t>(layout.size()), 1e-3f);
  for (const TensorSlot& slot : layout.tensors()) {
    if (slot.decays) continue;
    std::fill_n(sums.begin() + slot.offset, slot.size(), 1.0f);
  }
  REQUIRE(one.stage(1).OptimizerStepOn(sums, 5, 1).ok());
  REQUIRE(split.stage(1).OptimizerStepOn(sums, 5, 1).ok());
  CHECK(one.ParametersOf(1) == split.ParametersOf(1));
}

TEST_CASE("TensorTeam: a gradient that is not finite changes nothing on any device",
          "[model][error]") {
  const RunConfig config = SplitRun();
  SplitStages stages(config, 2);
  stages.Step(0);
  const auto before = stages.StateOf(0);
  std::vector<float> sums(before.parameters.size(), 1e-3f);
  const auto [name, block] = GENERATE(table<std::string, std::string>({
      {"model.embed_tokens.weight", "embedding"},
      {"model.layers.1.mlp.down_proj.weight", "layer 1"},
      {"lm_head.weight", "head"},
  }));
  const TensorSlot* slot = stages.stage(0).layout().Find(name);
  REQUIRE(slot != nullptr);
  sums[static_cast<size_t>(slot->offset + slot->size() - 1)] = NAN;
  const absl::Status status = stages.stage(0).OptimizerStepOn(sums, 1, 1);
  CHECK(absl::IsInvalidArgument(status));
  CHECK(ErrorText(status).find("of " + block) != std::string::npos);
  CHECK(stages.StateOf(0) == before);
  stages.Step(2);
}

TEST_CASE("TensorTeam: norms that came to differ are found", "[model][error]") {
  const RunConfig config = SplitRun();
  std::vector<std::unique_ptr<Backend>> devices, hosts;
  hosts.push_back(CreateCpuBackend(1));
  hosts.push_back(CreateReferenceBackend());  // whose steps are of other roundings
  std::vector<TeamDevice> team;
  for (const auto& host : hosts)
    team.push_back({devices.emplace_back(CreateCpuBackend(1)).get(), 1, host.get()});
  const auto stage = *StageTeam::Create(config, {2, 5, false, 0, DeviceSplit::kTensors}, team);
  REQUIRE(stage->CheckEqual().ok());
  for (int64_t step = 0; step < 8; ++step) {
    const auto sums = FloatsOf(stage->layout().size(), -0.7f * static_cast<float>(step));
    REQUIRE(stage->OptimizerStepOn(sums, step, 1).ok());
  }
  const absl::Status status = stage->CheckEqual();
  CHECK(absl::IsDataLoss(status));
  CHECK(ErrorText(status).find("device 1 of 2") != std::string::npos);
}

TEST_CASE("TensorTeam: a device that fails in the middle of a pass is everybody's error",
          "[model][error]") {
  const DiskDirectory directory;
  const RunConfig config = GENERATE(false, true) ? LadderSplitRun() : SplitRun();
  SplitStages stages(config, 4, {.parking_of_last = {2, 4, directory.path()}});
  StageTeam& stage = stages.stage(1);
  const auto floats = static_cast<size_t>(TokensPerMicrobatch(config) * config.model.hidden);
  const std::vector<float> in(floats, 0.5f);
  std::vector<float> out(floats);
  absl::Status failed;
  // Again where all that was cut off happened to be written later, or read before.
  for (int64_t step = 0; step < 100 && failed.ok(); ++step) {
    for (int32_t m = 0; m < 6; ++m) REQUIRE(stage.Forward({step, m}, in, out).ok());
    CutFileIn(directory.path());
    for (int32_t m = 0; m < 6 && failed.ok(); ++m) failed = stage.Backward({step, m}, in, out);
    for (int32_t m = 0; m < 6 && failed.ok(); ++m) stage.Accumulate({step, m});
  }
  INFO(ErrorText(failed));
  CHECK(absl::IsDataLoss(failed));
  CHECK_FALSE(stage.Forward({100, 0}, in, out).ok());  // the team is of no more use, and says so
}

TEST_CASE("TensorTeam: calls that do not fit are refused, and the team goes on", "[model][error]") {
  const RunConfig config = SplitRun();
  SplitStages stages(config, 2);
  StageTeam &first = stages.stage(0), &second = stages.stage(1);
  std::vector<int32_t> tokens(21, 3);
  std::vector<float> stream(21 * 32), less(21 * 32 - 1);
  tokens[20] = 19;
  CHECK(absl::IsInvalidArgument(first.ForwardFirst({0, 0}, tokens, stream)));
  tokens[20] = 18;
  CHECK(absl::IsInvalidArgument(first.ForwardFirst({0, 0}, tokens, less)));
  CHECK(absl::IsInvalidArgument(second.Forward({0, 0}, stream, less)));
  CHECK(absl::IsInvalidArgument(second.Forward({0, 0}, {}, stream)));
  CHECK(absl::IsFailedPrecondition(first.Backward({0, 0}, stream, {})));
  REQUIRE(first.ForwardFirst({0, 0}, tokens, stream).ok());
  CHECK(absl::IsAlreadyExists(first.ForwardFirst({0, 0}, tokens, stream)));
  CHECK(absl::IsFailedPrecondition(first.Backward({0, 0}, stream, {})));  // without a loss
  first.Discard({0, 0});
  REQUIRE(second.Forward({0, 0}, stream, stream).ok());
  CHECK(absl::IsInvalidArgument(second.Backward({0, 0}, stream, {})));
  second.Discard({0, 0});
  stages.Step(0);
}

}  // namespace skerry
