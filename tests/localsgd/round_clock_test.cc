// When rounds end and land, told once for the programs (common/round_clock.h) and once as what a
// replica does (localsgd/outer_schedule.h): the same.
#include "common/round_clock.h"

#include "localsgd/outer_schedule.h"
#include "tests/localsgd/stage_of_replicas.h"

namespace skerry {
namespace {

using Kind = OuterAction::Kind;

OuterConfig Rounds(OuterMode mode, int64_t tau, int64_t delta, int32_t fragments = 1) {
  OuterConfig config;
  config.mode = mode;
  config.inner_steps = tau;
  config.overlap_steps = delta;
  config.fragments = fragments;
  return EffectiveOuter(config);
}

TEST_CASE("RoundClock: streaming rounds go from fragment to fragment", "[localsgd]") {
  const RoundClock clock(Rounds(OuterMode::kStreaming, 4, 3, 2), 8);
  CHECK(clock.rounds() == 5);
  const int64_t boundaries[] = {2, 4, 6, 8, 8}, dues[] = {5, 7, 8, 8, 8};
  for (int64_t round = 0; round < 5; ++round) {
    CHECK(clock.Boundary(round) == boundaries[round]);
    CHECK(clock.Due(round) == dues[round]);
    CHECK(clock.FragmentOf(round) == round % 2);
  }
  // Round 1 may be sent while round 0 is in flight, round 2 of the same fragment may not.
  CHECK(clock.MayEncode(1, 0));
  CHECK_FALSE(clock.MayEncode(2, 0));
}

TEST_CASE("RoundClock: co2 sends a round before it lands the one before", "[localsgd]") {
  const RoundClock clock(Rounds(OuterMode::kCo2, 4, 1), 12);
  CHECK(clock.rounds() == 3);
  CHECK(clock.Boundary(1) == 8);
  CHECK(clock.Due(0) == 8);
  CHECK(clock.Due(2) == 12);
  CHECK(clock.MayEncode(1, 0));
  CHECK_FALSE(clock.MayEncode(2, 0));
  CHECK_FALSE(clock.MayReduce(1, 0));
}

TEST_CASE("RoundClock: whatever the mode, it ends and lands rounds when a replica does",
          "[localsgd]") {
  const auto mode = GENERATE(OuterMode::kOverlap, OuterMode::kSynchronous, OuterMode::kCo2,
                             OuterMode::kStreaming);
  const int64_t tau = GENERATE(1, 2, 5, 6);
  const int64_t spans = GENERATE(1, 2, 4);
  for (int64_t delta = 0; delta <= tau; ++delta) {
    for (int32_t fragments = 1; fragments <= (mode == OuterMode::kStreaming ? tau : 1);
         ++fragments) {
      const OuterConfig config = Rounds(mode, tau, delta, fragments);
      const int64_t steps = spans * tau;
      const RoundClock clock(config, steps);
      const OuterSchedule schedule(*OuterLaw::Of(config));
      int64_t encoded = 0, applied = 0;
      const auto take = [&](const std::vector<OuterAction>& actions, int64_t step) {
        for (const OuterAction& action : actions) {
          const int64_t round = action.round * fragments + action.fragment;
          if (action.kind == Kind::kEncode) {
            ++encoded;
            REQUIRE(clock.Boundary(round) == step);
          } else if (action.kind == Kind::kApply) {
            ++applied;
            REQUIRE(clock.Due(round) == step);
          }
        }
      };
      INFO("τ " << tau << " δ " << delta << " P " << fragments << " steps " << steps);
      for (int64_t step = 1; step <= steps; ++step) {
        take(schedule.After(step), step);
        if (step == steps) take(schedule.AtEnd(steps), step);
        REQUIRE(clock.EndedBy(step) == encoded);
        REQUIRE(clock.LandedBy(step) == applied);
      }
      REQUIRE(encoded == clock.rounds());
    }
  }
}

// What the bounds on held messages and on steps that data nodes lie apart rest on.
TEST_CASE("RoundClock: whoever waits for a peer's message is at most 2τ steps ahead of it",
          "[localsgd]") {
  const auto mode = GENERATE(OuterMode::kOverlap, OuterMode::kCo2, OuterMode::kStreaming);
  const int64_t tau = GENERATE(1, 3, 8), delta = GENERATE(0, 1, 8);
  const int32_t fragments = static_cast<int32_t>(std::min<int64_t>(tau, 3));
  const RoundClock clock(Rounds(mode, tau, std::min(delta, tau), fragments), 6 * tau);
  for (int64_t round = 0; round < clock.rounds(); ++round) {
    const int64_t slowest = round == 0 ? 0 : clock.Boundary(round - 1);
    CHECK(clock.Due(round) - slowest <= 2 * tau);
  }
}

TEST_CASE("EffectiveOuter: what a mode fixes stands, whatever was given, and once is enough",
          "[localsgd]") {
  CHECK(Rounds(OuterMode::kSynchronous, 8, 3).overlap_steps == 0);
  CHECK(Rounds(OuterMode::kCo2, 8, 3).overlap_steps == 8);
  CHECK(Rounds(OuterMode::kCo2, 0, 3).overlap_steps == -1);
  CHECK(Rounds(OuterMode::kCo2, 8, 3).reduce == OuterReduce::kAll);
  CHECK(Rounds(OuterMode::kDataParallel, 1, 1).learning_rate == 1);
  CHECK(Rounds(OuterMode::kDataParallel, 1, 1).momentum == 0);
  CHECK(Rounds(OuterMode::kOverlap, 8, 3).overlap_steps == 3);
  const OuterConfig once = Rounds(OuterMode::kCo2, 8, 3);
  CHECK(EffectiveOuter(once) == once);
}

}  // namespace
}  // namespace skerry
