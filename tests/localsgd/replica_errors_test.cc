// What a replica refuses, and that a refusal changes nothing.
#include "tests/localsgd/stage_of_replicas.h"

namespace skerry {
namespace {

std::vector<Worker> TrainedPair(ResidualPlace place) {
  auto stage = Stage(2, Outer(0.7f, 0.6f, DeltaCodec::kInt8, place), RandomVector(600, 1));
  for (uint64_t c = 0; c < 2; ++c) {
    const auto move = RandomVector(600, 40 + c, 0.01);
    for (size_t i = 0; i < 600; ++i) stage[c].theta[i] -= move[i];
  }
  return stage;
}

TEST_CASE("OuterReplica: a bad commit is refused, names the participant and changes nothing",
          "[localsgd][error]") {
  const auto place = GENERATE(ResidualPlace::kBuffer, ResidualPlace::kWeights);
  auto stage = TrainedPair(place);
  EncodeAll(&stage);
  Bytes truncated = stage[1].message, hostile = stage[1].message;
  truncated.pop_back();
  hostile[0] = 255;
  using Commit = std::vector<OuterReplica::Accepted>;
  const OuterReplica::Accepted own = {10, stage[0].message, true};
  const std::pair<Commit, std::string> cases[] = {
      {{}, "round"},
      {{own, {10, truncated, false}}, "participant 1"},
      {{{10, hostile, false}, own}, "participant 0"},
      {{own, {10, stage[1].message, false}, {-1, stage[1].message, false}}, "participant 2"},
      {{own, own}, "participant 1"},
      {{{10, stage[1].message, true}}, "participant 0"}};
  Worker& self = stage[0];
  const auto before = StateOf(self.replica);
  const auto theta = self.theta;
  for (const auto& [commit, prefix] : cases) {
    const absl::Status status = self.replica.Apply(commit, self.theta);
    CAPTURE(prefix, std::string(status.message()));
    CHECK(absl::IsInvalidArgument(status));
    CHECK(std::string(status.message()).find(prefix) == 0);
    CHECK((StateOf(self.replica) == before));
    CHECK(self.theta == theta);
  }
  std::vector<float> short_theta(599);
  CHECK(absl::IsInvalidArgument(self.replica.Apply(Commit{own}, short_theta)));
  // The good commit still works.
  ApplyAll(&stage, {0, 1});
}

TEST_CASE("OuterReplica: a commit is applied once, its message is settled by then",
          "[localsgd][error]") {
  auto stage = TrainedPair(ResidualPlace::kBuffer);
  EncodeAll(&stage);
  ApplyAll(&stage, {0, 1});
  const auto before = StateOf(stage[0].replica);
  CHECK(absl::IsFailedPrecondition(
      stage[0].replica.Apply(CommitFor(stage, 0, {0, 1}), stage[0].theta)));
  CHECK((StateOf(stage[0].replica) == before));
}

TEST_CASE("OuterReplica: one message is pending at a time", "[localsgd][error]") {
  auto stage = TrainedPair(ResidualPlace::kWeights);
  EncodeAll(&stage);
  CHECK(stage[0].replica.HasPending());
  CHECK(absl::IsFailedPrecondition(stage[0].replica.Encode(stage[0].theta).status()));
  ApplyAll(&stage, {1});
  CHECK_FALSE(stage[0].replica.HasPending());
  CHECK(stage[0].replica.Encode(stage[0].theta).ok());
}

TEST_CASE("OuterReplica: a diverged replica is void for the round and still follows the base",
          "[localsgd][error]") {
  const auto place = GENERATE(ResidualPlace::kBuffer, ResidualPlace::kWeights);
  auto stage = TrainedPair(place);
  Worker& sick = stage[0];
  auto diverged = sick.theta;
  diverged[17] = NAN;
  CHECK(absl::IsInvalidArgument(sick.replica.Encode(diverged).status()));
  CHECK(absl::IsInvalidArgument(sick.replica.Encode(std::span(sick.theta).first(5)).status()));
  CHECK_FALSE(sick.replica.HasPending());
  stage[1].message = **stage[1].replica.Encode(stage[1].theta);

  ApplyAll(&stage, {1});

  CHECK(stage[0].replica.BaseDigest() == stage[1].replica.BaseDigest());
}

}  // namespace
}  // namespace skerry
