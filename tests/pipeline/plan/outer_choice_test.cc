#include "pipeline/plan/outer_choice.h"

#include <catch2/catch.hpp>

#include "common/rng.h"
#include "routing/placement.h"

namespace skerry {
namespace {

constexpr double kStep = 1;  // seconds

// Two stages of two replicas; an int8 delta of stage 0 takes `int8_s` steps to the other replica,
// one of stage 1 next to nothing. A link between the stages takes `boundary_s` for a payload.
struct Case {
  RunConfig config;
  PlacementProblem problem;

  explicit Case(double int8_s, double boundary_s = 0) {
    Workload& workload = problem.workload;
    workload.stage_of_slot = {0, 0, 1, 1};
    workload.forward_flops = {1, 1};
    workload.microbatches = {{0, {0, 2}}, {0, {1, 3}}};
    problem.fleet.gflops = {1, 1, 1, 1};
    problem.fleet.latency_s.assign(16, 0);
    problem.fleet.wire_s.assign(16, boundary_s);
    for (const auto& [a, b] : {std::pair(0, 1), std::pair(2, 3)}) {
      problem.fleet.wire_s[problem.fleet.Pair(a, b)] = 1;
      problem.fleet.wire_s[problem.fleet.Pair(b, a)] = 1;
    }
    problem.outer.delta_boundaries = {int8_s * kStep, 0.01};
    config.steps = 256;
    config.outer.inner_steps = 16;
    config.outer.overlap_steps = -1;
  }
  OuterChoice Choose() const {
    return ChooseOuter(config, problem, {0, 1, 2, 3}, kStep, DeltaCodec::kInt8);
  }
};

TEST_CASE("Outer choice: δ is the shortest of its grid that hides the exchange", "[plan]") {
  const auto [int8_s, overlap] = GENERATE(table<double, int64_t>({
      {0.02, 1},  // τ / 16
      {0.79, 1},  // 1.25 times that is just below a step
      {1.0, 2},
      {1.7, 4},  // 2.1 is of the class of 4
      {3.1, 4},
      {6.3, 8},  // the codec is given, so δ grows beyond τ / 4
      {12.7, 16},
  }));
  const OuterChoice choice = Case(int8_s).Choose();
  CHECK(choice.overlap_steps == overlap);
  CHECK(choice.inner_steps == 16);
  CHECK(choice.codec == DeltaCodec::kInt8);
  CHECK(choice.transfer_s == Approx(int8_s));
  CHECK(choice.IsHidden());
}

// Nodes 0 and 2, of different stages, are of one network, 1 and 3 of another.
TEST_CASE("Outer choice: a line that replicas of different stages share carries both deltas",
          "[plan]") {
  const auto [stage_1, overlap] = GENERATE(table<double, int64_t>({{0.01, 1}, {0.7, 2}, {2.4, 4}}));
  Case apart(0.7);
  apart.problem.outer.delta_boundaries = {0.7 * kStep, stage_1 * kStep};
  apart.problem.fleet.latency_s.assign(16, 10e-3);
  Case together = apart;
  for (const auto& [a, b] : {std::pair(0, 2), std::pair(1, 3)}) {
    together.problem.fleet.latency_s[together.problem.fleet.Pair(a, b)] = 0.2e-3;
    together.problem.fleet.latency_s[together.problem.fleet.Pair(b, a)] = 0.2e-3;
  }
  CHECK(apart.Choose().transfer_s == Approx(std::max(0.7, stage_1) + 10e-3));
  const OuterChoice choice = together.Choose();
  CHECK(choice.transfer_s == Approx(0.7 + stage_1 + 10e-3));
  CHECK(choice.overlap_steps == overlap);
}

TEST_CASE("Outer choice: what was measured of a line counts, not how near nodes are", "[plan]") {
  Case near(0.7);
  near.problem.outer.delta_boundaries = {0.7 * kStep, 0.7 * kStep};
  near.problem.fleet.latency_s.assign(16, 0.2e-3);  // all of them in one network, so it seems
  Case far = near;
  far.problem.fleet.latency_s.assign(16, 10e-3);
  for (Case* c : {&near, &far}) {
    c->problem.fleet.line_of = {0, 1, 2, 3};
    c->problem.fleet.line_s = {0, 0, 0, 0};
  }
  CHECK(near.Choose().transfer_s == Approx(0.7 + 0.2e-3));
  CHECK(far.Choose().transfer_s == Approx(0.7 + 10e-3));

  far.problem.fleet.line_of = {0, 1, 0, 1};
  CHECK(far.Choose().transfer_s == Approx(2 * 0.7 + 10e-3));
  // A line that is faster than one of its links.
  far.problem.fleet.line_s = {0.75, 0.75, 0, 0};
  CHECK(far.Choose().transfer_s == Approx(2 * 0.75 * 0.7 + 10e-3));
}

TEST_CASE("Outer choice: δ = τ is for a line that is known to be shared, not for a guess",
          "[plan]") {
  Case guessed(5);
  guessed.problem.outer.delta_boundaries = {5 * kStep, 5 * kStep};
  guessed.problem.fleet.latency_s.assign(16, 10e-3);
  for (const auto& [a, b] : {std::pair(0, 2), {2, 0}, {1, 3}, {3, 1}})
    guessed.problem.fleet.latency_s[guessed.problem.fleet.Pair(a, b)] = 0.2e-3;
  Case known = guessed;
  known.problem.fleet.line_of = {0, 1, 0, 1};
  known.problem.fleet.line_s = {0, 0};
  CHECK(guessed.Choose().overlap_steps == 8);
  CHECK(known.Choose().overlap_steps == 16);
}

TEST_CASE("Outer choice: in streaming δ has to hide a fragment, and τ all of them", "[plan]") {
  Case c(3.1);
  c.config.outer.mode = OuterMode::kStreaming;
  c.config.outer.fragments = 4;
  const OuterChoice choice = c.Choose();
  CHECK(choice.overlap_steps == 1);  // overlap needs 4: see above
  CHECK(choice.transfer_s == Approx(3.1 / 4));
  CHECK(choice.line_s == Approx(3.1));
  CHECK(choice.IsHidden());
  // Each message would be hidden by 8 steps, but 16 steps send more than they have time for.
  Case full(20);
  full.config.outer = c.config.outer;
  const OuterChoice too_much = full.Choose();
  CHECK(too_much.transfer_s <= 8);
  CHECK_FALSE(too_much.IsHidden());
}

TEST_CASE("Outer choice: what a mode fixes is not chosen", "[plan]") {
  Case co2(0.02);
  co2.config.outer.mode = OuterMode::kCo2;
  CHECK(co2.Choose().overlap_steps == 16);
  CHECK(FirstOuter(co2.config).overlap_steps == 16);
  co2.config.outer.inner_steps = 0;
  const OuterChoice open = co2.Choose();
  CHECK(open.overlap_steps == open.inner_steps);
  Case synchronous(3.1);
  synchronous.config.outer.mode = OuterMode::kSynchronous;
  synchronous.config.outer.overlap_steps = 0;
  CHECK(synchronous.Choose().overlap_steps == 0);
}

TEST_CASE("Outer choice: what even δ = τ does not hide is said to be so", "[plan]") {
  const OuterChoice choice = Case(40).Choose();
  CHECK(choice.overlap_steps == 16);
  CHECK_FALSE(choice.IsHidden());
  CHECK(OuterText(choice).find("take 40.00 s, 24.00 s more than the 16.00 s") != std::string::npos);
}

TEST_CASE("Outer choice: a poorer codec comes only when a quarter of the round does not hide",
          "[plan]") {
  const auto [int8_s, codec, overlap] = GENERATE(table<double, DeltaCodec, int64_t>({
      {3.1, DeltaCodec::kInt8, 4},
      {3.3, DeltaCodec::kInt4, 4},
      {6.3, DeltaCodec::kInt4, 4},
      {7.0, DeltaCodec::kTernary, 2},
      {25, DeltaCodec::kTernary, 4},
      {50, DeltaCodec::kTernary, 8},  // nothing poorer is left: δ grows
  }));
  Case c(int8_s);
  c.config.outer.tier = OuterTier::kAuto;
  const OuterChoice choice = c.Choose();
  CHECK(choice.codec == codec);
  CHECK(choice.overlap_steps == overlap);
}

TEST_CASE("Outer choice: rounds grow longer only when no codec of the grid hides", "[plan]") {
  const auto [int8_s, tau, codec, overlap] = GENERATE(table<double, int64_t, DeltaCodec, int64_t>({
      {0.5, 8, DeltaCodec::kInt8, 1},
      {2.0, 8, DeltaCodec::kInt4, 2},
      {12, 8, DeltaCodec::kTernary, 2},
      {20, 16, DeltaCodec::kTernary, 4},
      {190, 128, DeltaCodec::kTernary, 32},
  }));
  Case c(int8_s);
  c.config.outer.tier = OuterTier::kAuto;
  c.config.outer.inner_steps = 0;
  const OuterChoice choice = c.Choose();
  CHECK(choice.inner_steps == tau);
  CHECK(choice.codec == codec);
  CHECK(choice.overlap_steps == overlap);
}

TEST_CASE("Outer choice: low rank is for few bits and the residual in the weights", "[plan]") {
  Case c(190);
  c.config.outer.tier = OuterTier::kAuto;
  CHECK(c.Choose().codec == DeltaCodec::kTernary);
  c.config.outer.budget_bits = 0.15f;
  CHECK(c.Choose().codec == DeltaCodec::kTernary);
  c.config.outer.residual = ResidualPlace::kWeights;
  const OuterChoice choice = c.Choose();
  CHECK(choice.codec == DeltaCodec::kLowRank);
  // What int8 would take, in proportion.
  c.config.outer.tier = OuterTier::kCustom;
  c.config.outer.codec = DeltaCodec::kInt8;
  CHECK(choice.transfer_s == Approx(c.Choose().transfer_s * 0.15 / 8.03125));
  c.config.outer.tier = OuterTier::kAuto;
  c.config.outer.budget_bits = 1;
  CHECK(c.Choose().codec == DeltaCodec::kTernary);
}

TEST_CASE("Outer choice: what the operator gave stands", "[plan]") {
  Case c(6);
  c.config.outer.tier = OuterTier::kAuto;
  c.config.outer.overlap_steps = 2;
  OuterChoice choice = c.Choose();
  CHECK(choice.overlap_steps == 2);
  CHECK(choice.codec ==
        DeltaCodec::kTernary);  // 6 · 1 / 8.03 · 1.25 is below 1; int4's 3.8 above 2

  // Synchronous rounds hide nothing: one may wait for τ / 16.
  c.config.outer.overlap_steps = 0;
  c.config.outer.inner_steps = 0;
  choice = c.Choose();
  CHECK(choice.overlap_steps == 0);
  CHECK(choice.inner_steps == 16);
  CHECK(choice.codec == DeltaCodec::kTernary);
  CHECK_FALSE(choice.IsHidden());
}

TEST_CASE("Outer choice: activations go first on the same uplink", "[plan]") {
  // Each slot sends two payloads a step: half of its time.
  const OuterChoice choice = Case(1.5, kStep / 4).Choose();
  CHECK(choice.uplink_free == Approx(0.5));
  CHECK(choice.transfer_s == Approx(3.0));
  CHECK(choice.overlap_steps == 4);
}

TEST_CASE("Outer choice: all others of the stage are sent to", "[plan]") {
  Case c(1.2);
  c.problem.workload.stage_of_slot = {0, 0, 0, 1};
  c.problem.workload.microbatches = {{0, {0, 3}}};
  c.problem.fleet.wire_s.assign(16, 1e-9);
  for (const int32_t other : {1, 2}) c.problem.fleet.wire_s[c.problem.fleet.Pair(0, other)] = 1;
  c.problem.fleet.latency_s.assign(16, 0.1);
  // Another link of its line is faster, so both are sent to at once.
  CHECK(c.Choose().transfer_s == Approx(1.3));
  c.problem.fleet.wire_s[c.problem.fleet.Pair(0, 3)] = 1;
  c.problem.workload.microbatches = {{0, {0}}, {0, {3}}};
  const OuterChoice choice = c.Choose();
  CHECK(choice.transfer_s == Approx(2.5));
  const double payload = 4.0 * c.config.model.hidden * c.config.model.context *
                         c.config.pipeline.sequences_per_microbatch;
  CHECK(static_cast<double>(choice.sent_bytes) == Approx(2 * 1.2 * payload));
}

TEST_CASE("Outer choice: stages of one replica have nothing to hide", "[plan]") {
  Case c(5);
  c.problem.workload.stage_of_slot = {0, 1, 2, 3};
  c.problem.workload.microbatches = {{0, {0, 1, 2, 3}}};
  c.problem.outer.delta_boundaries = {1, 1, 1, 1};
  const OuterChoice choice = c.Choose();
  CHECK(choice.overlap_steps == 1);
  CHECK(choice.sent_bytes == 0);
}

TEST_CASE("Outer choice: noise of a tenth inside a class changes nothing", "[plan]") {
  Rng rng(7, "noise");
  for (int i = 0; i < 200; ++i) {
    Case c(1.2 * (0.9 + 0.2 * rng.Uniform()));
    c.config.outer.tier = OuterTier::kAuto;
    const OuterChoice choice = c.Choose();
    CHECK(choice.overlap_steps == 2);
    CHECK(choice.codec == DeltaCodec::kInt8);
  }
}

TEST_CASE("Outer choice: every τ tried divides the steps of the run", "[plan]") {
  CHECK(InnerStepsGrid(256) == std::vector<int64_t>{8, 16, 32, 64, 128});
  CHECK(InnerStepsGrid(24) == std::vector<int64_t>{8, 12, 24});
  CHECK(InnerStepsGrid(100) == std::vector<int64_t>{5, 10, 25, 50, 100});
  CHECK(InnerStepsGrid(7) == std::vector<int64_t>{7});
  CHECK(InnerStepsGrid(1) == std::vector<int64_t>{1});
}

TEST_CASE("Outer choice: the plan writes down what was open and nothing else", "[plan]") {
  Case c(6);
  PlannedSettings settings;
  Settle(c.config.outer, c.Choose(), &settings);
  CHECK(settings == PlannedSettings{0, 8});
  c.config.outer.tier = OuterTier::kAuto;
  c.config.outer.inner_steps = 0;
  const OuterChoice choice = c.Choose();
  Settle(c.config.outer, choice, &settings);
  CHECK(settings == PlannedSettings{choice.inner_steps, choice.overlap_steps, true, choice.codec});
}

}  // namespace
}  // namespace skerry
