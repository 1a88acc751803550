// What every mode makes of a configuration, and when it does what.
#include "localsgd/outer_law.h"

#include "localsgd/outer_fragments.h"
#include "tests/localsgd/stage_of_replicas.h"

namespace skerry {
namespace {

using Kind = OuterAction::Kind;

OuterConfig Rounds(int64_t tau, int64_t delta) {
  OuterConfig config;
  config.inner_steps = tau;
  config.overlap_steps = delta;
  return config;
}

OuterSchedule ScheduleOf(OuterMode mode, int64_t tau, int64_t delta, int32_t fragments = 1) {
  const auto law = OuterLaw::Of(mode, Rounds(tau, delta), {.fragments = fragments});
  REQUIRE(law.ok());
  return OuterSchedule(*law);
}

TEST_CASE("OuterLaw: overlap is the configuration as it stands", "[localsgd]") {
  const OuterConfig config = Rounds(16, 4);
  const auto law = OuterLaw::Of(OuterMode::kOverlap, config);
  REQUIRE(law.ok());
  CHECK(law->config == config);
  CHECK(law->fragments == 1);
  CHECK_FALSE(law->replica.restart);
}

TEST_CASE("OuterLaw: the other modes fix what defines them", "[localsgd]") {
  const OuterConfig config = Rounds(16, 4);
  CHECK(OuterLaw::Of(OuterMode::kSynchronous, config)->config.overlap_steps == 0);
  const OuterLaw co2 = *OuterLaw::Of(OuterMode::kCo2, config, {.momentum_clip = 0.5f});
  CHECK(co2.config.overlap_steps == 16);
  CHECK(co2.replica.restart);
  CHECK(co2.replica.rule == OuterRule::kHeavyBall);
  CHECK(co2.replica.staleness == 1);
  CHECK(co2.replica.momentum_clip == 0.5f);
  CHECK(OuterLaw::Of(OuterMode::kStreaming, config, {.fragments = 3})->fragments == 3);
  const OuterLaw parallel = *OuterLaw::Of(OuterMode::kDataParallel, config);
  CHECK(parallel.config.inner_steps == 1);
  CHECK(parallel.config.overlap_steps == 0);
  CHECK(parallel.config.learning_rate == 1.0f);
  CHECK(parallel.config.momentum == 0.0f);
}

TEST_CASE("OuterLaw: what no mode can mean is refused", "[localsgd][error]") {
  CHECK_FALSE(OuterLaw::Of(OuterMode::kOverlap, Rounds(0, 0)).ok());
  CHECK_FALSE(OuterLaw::Of(OuterMode::kOverlap, Rounds(4, 5)).ok());
  CHECK_FALSE(OuterLaw::Of(OuterMode::kOverlap, Rounds(4, -1)).ok());
  CHECK_FALSE(OuterLaw::Of(OuterMode::kStreaming, Rounds(4, 1), {.fragments = 5}).ok());
  CHECK_FALSE(OuterLaw::Of(OuterMode::kStreaming, Rounds(4, 1), {.fragments = 0}).ok());
  CHECK_FALSE(OuterLaw::Of(OuterMode::kCo2, Rounds(4, 1), {.gap = 0.5}).ok());
  CHECK_FALSE(OuterLaw::Of(OuterMode::kCo2, Rounds(4, 1), {.momentum_clip = -1}).ok());
  OuterConfig in_weights = Rounds(4, 1);
  in_weights.residual = ResidualPlace::kWeights;
  CHECK_FALSE(OuterLaw::Of(OuterMode::kCo2, in_weights).ok());
}

TEST_CASE("OuterSchedule: synchronous rounds end and land at the boundary", "[localsgd]") {
  const OuterSchedule schedule = ScheduleOf(OuterMode::kSynchronous, 3, 2);
  CHECK(schedule.After(2).empty());
  CHECK(schedule.After(3) == std::vector<OuterAction>{{Kind::kEncode, 0, 0}, {Kind::kApply, 0, 0}});
  CHECK(schedule.After(6) == std::vector<OuterAction>{{Kind::kEncode, 0, 1}, {Kind::kApply, 0, 1}});
  CHECK(schedule.AtEnd(6).empty());
  CHECK(schedule.AtEnd(7) == std::vector<OuterAction>{{Kind::kEncode, 0, 2}, {Kind::kApply, 0, 2}});
}

TEST_CASE("OuterSchedule: an overlapped round lands delta steps after its boundary", "[localsgd]") {
  const OuterSchedule schedule = ScheduleOf(OuterMode::kOverlap, 4, 1);
  CHECK(schedule.After(4) == std::vector<OuterAction>{{Kind::kEncode, 0, 0}});
  CHECK(schedule.After(5) == std::vector<OuterAction>{{Kind::kApply, 0, 0}});
  CHECK(schedule.AtEnd(8) == std::vector<OuterAction>{{Kind::kApply, 0, 1}});
  // δ = τ: what lands comes before what is encoded.
  const OuterSchedule full = ScheduleOf(OuterMode::kOverlap, 4, 4);
  CHECK(full.After(8) == std::vector<OuterAction>{{Kind::kApply, 0, 0}, {Kind::kEncode, 0, 1}});
}

TEST_CASE("OuterSchedule: co2 sends a round before it takes the step of the one before",
          "[localsgd]") {
  const OuterSchedule schedule = ScheduleOf(OuterMode::kCo2, 4, 0);
  CHECK(schedule.After(4) ==
        std::vector<OuterAction>{{Kind::kEncode, 0, 0}, {Kind::kRestart, 0, 0}});
  CHECK(schedule.After(8) == std::vector<OuterAction>{{Kind::kEncode, 0, 1}, {Kind::kApply, 0, 0}});
  CHECK(schedule.AtEnd(8) == std::vector<OuterAction>{{Kind::kApply, 0, 1}});
}

TEST_CASE("OuterSchedule: whatever the mode, every round is encoded once and then applied once",
          "[localsgd]") {
  const auto mode = GENERATE(OuterMode::kOverlap, OuterMode::kSynchronous, OuterMode::kCo2,
                             OuterMode::kStreaming, OuterMode::kDataParallel);
  const int64_t delta = GENERATE(0, 1, 3, 6);
  const int64_t steps = GENERATE(range(1, 20));
  const int32_t fragments = mode == OuterMode::kStreaming ? 4 : 1;
  const OuterSchedule schedule = ScheduleOf(mode, 6, delta, fragments);
  std::vector<int64_t> encoded(4, 0), applied(4, 0);
  const auto take = [&](const std::vector<OuterAction>& actions) {
    for (const OuterAction& action : actions) {
      const auto f = static_cast<size_t>(action.fragment);
      if (action.kind == Kind::kEncode) REQUIRE(action.round == encoded[f]++);
      if (action.kind == Kind::kApply) REQUIRE(action.round == applied[f]++);
      REQUIRE(applied[f] <= encoded[f]);
    }
  };
  for (int64_t step = 1; step <= steps; ++step) take(schedule.After(step));
  take(schedule.AtEnd(steps));
  CHECK(encoded == applied);
  for (int32_t f = 0; f < fragments; ++f) CHECK(encoded[static_cast<size_t>(f)] >= 1);
}

TEST_CASE("CutFragments: whole blocks, as even as they go", "[localsgd]") {
  const std::vector<int64_t> blocks = {10, 10, 10, 10, 40};
  CHECK(CutFragments(blocks, 1) == std::vector<FragmentRange>{{0, 80}});
  CHECK(CutFragments(blocks, 2) == std::vector<FragmentRange>{{0, 40}, {40, 40}});
  CHECK(CutFragments(std::vector<int64_t>{5}, 2).size() == 2);
}

TEST_CASE("OuterFragments: in pieces or whole, the same steps give the same base", "[localsgd]") {
  // Block codes restart at a fragment's begin, so the cut is at a multiple of their block.
  const std::vector<int64_t> blocks = {512, 512, 300};
  const auto start = RandomVector(1324, 3);
  OuterConfig config = Outer(0.7f, 0.6f, DeltaCodec::kInt8, ResidualPlace::kBuffer);
  config.overlap_steps = 0;
  OuterFragments whole(*OuterLaw::Of(OuterMode::kSynchronous, config), blocks, start);
  OuterFragments pieces(*OuterLaw::Of(OuterMode::kStreaming, config, {.fragments = 2}), blocks,
                        start);
  REQUIRE(pieces.count() == 2);
  auto theta = start, parts = start;
  for (uint64_t round = 0; round < 3; ++round) {
    const auto move = RandomVector(theta.size(), round, 0.01);
    for (size_t i = 0; i < theta.size(); ++i) theta[i] -= move[i], parts[i] -= move[i];
    const Bytes message = **whole.Encode(0, theta);
    REQUIRE(whole.Apply(0, std::vector{OuterReplica::Accepted{10, message, true}}, theta).ok());
    for (int32_t f = 0; f < 2; ++f) {
      const Bytes part = **pieces.Encode(f, parts);
      REQUIRE(pieces.Apply(f, std::vector{OuterReplica::Accepted{10, part, true}}, parts).ok());
    }
  }
  std::vector<float> a(start.size()), b(start.size());
  whole.ReadBase(a);
  pieces.ReadBase(b);
  CHECK(SameBits(a, b));
  CHECK(SameBits(theta, parts));
  std::vector<float> three(3);
  CHECK_FALSE(pieces.Encode(0, three).ok());
}

}  // namespace
}  // namespace skerry
