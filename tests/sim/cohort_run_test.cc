// Whole runs of nodes that are near each other: cohorts train as one replica, whoever of them dies.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "pipeline/plan/cohorts.h"
#include "pipeline/plan/route.h"
#include "sim/live_faults.h"
#include "tests/sim/cohort_trial.h"
#include "tests/sim/fake_lanes.h"
#include "tests/sim/two_sites.h"

using namespace skerry;
using skerry::testing::CheckThrough;
using skerry::testing::EndOf;
using skerry::testing::FakeLanes;
using skerry::testing::kNodesOfSite;
using skerry::testing::LargestCohort;
using skerry::testing::Seen;
using skerry::testing::Train;
using skerry::testing::TrainThrough;
using skerry::testing::TwoSites;

TEST_CASE("Cohorts: near nodes of a stage train as one, and one of them speaks", "[sim][cohorts]") {
  const VirtualMath math = GENERATE(VirtualMath::kModelled, VirtualMath::kTiny);
  const Seen seen = Train(TwoSites(math, 1));
  CHECK(seen.wrong.empty());
  CHECK(seen.cohorts >= 2);
  CHECK(seen.together > 0);
  CHECK(seen.partings == 0);
  CHECK(seen.rounds == 6);
  VirtualRunOptions apart = TwoSites(math, 1);
  apart.config.cluster.groups = "off";
  apart.config.outer.reduce = OuterReduce::kAll;
  const Seen each = Train(std::move(apart));
  CHECK(each.wrong.empty());
  CHECK(each.together == 0);
  CHECK(seen.wan_deltas < each.wan_deltas);
  CHECK(Train(TwoSites(math, 1)).trace == seen.trace);
}

TEST_CASE("Cohorts: with overlap sums are made behind the next step", "[sim][cohorts]") {
  const VirtualMath math = GENERATE(VirtualMath::kModelled, VirtualMath::kTiny);
  VirtualRunOptions at_once = TwoSites(math, 1), overlapping = TwoSites(math, 1);
  overlapping.config.cluster.overlap_steps = 1;
  const int64_t steps = overlapping.config.steps;
  VirtualRun first(std::move(at_once)), second(std::move(overlapping));
  const VirtualOutcome waits = first.Run(), hides = second.Run();
  CHECK(EndOf(first, waits).empty());
  CHECK(EndOf(second, hides).empty());
  CHECK(second.checkers().partings() == 0);
  // Of each step but the last.
  CHECK(waits.sums.sums % steps == 0);
  CHECK(waits.sums.sums > 0);
  CHECK(hides.sums.sums == waits.sums.sums / steps * (steps - 1));
  // The tiny model is cut between any two layers, the modelled one is too small to be cut.
  if (math == VirtualMath::kTiny) {
    CHECK(waits.sums.HiddenFraction() > 0.4);
  } else {
    CHECK(waits.sums.HiddenFraction() < 0.1);
  }
  CHECK(hides.sums.HiddenFraction() > 0.5);
  CHECK(hides.training_s < waits.training_s);
  CHECK(hides.rounds == waits.rounds);
  if (math == VirtualMath::kTiny) CHECK(hides.loss_last < hides.loss_first);
}

TEST_CASE("Cohorts: what rings send counts among the bytes that nodes have sent",
          "[sim][cohorts]") {
  VirtualRun run(TwoSites(VirtualMath::kModelled, 1));
  std::map<NodeId, int64_t> sent, said;  // until the last heartbeat
  std::map<NodeId, int64_t> until_then;
  int64_t of_rings = 0;
  run.WatchSends([&](const NodeId& from, const Message& message) {
    if (const auto* beat = std::get_if<Heartbeat>(&message)) {
      said[from] = beat->bytes_sent;
      until_then[from] = sent[from];
    }
    sent[from] += WireSize(message);
    if (std::holds_alternative<GroupValues>(message)) of_rings += WireSize(message);
  });
  const VirtualOutcome outcome = run.Run();
  CHECK(EndOf(run, outcome).empty());
  CHECK(of_rings > 1'000'000);
  for (int32_t i = 0; i < 8; ++i) {
    const NodeId node = VirtualRun::node(i);
    CHECK(said[node] > 0);
    CHECK(said[node] == until_then[node]);
  }
}

TEST_CASE("Cohorts: members find each other where nodes are told of few others", "[sim][cohorts]") {
  VirtualRunOptions options = TwoSites(VirtualMath::kModelled, 1);
  options.introduces_few = true;
  const Seen seen = Train(std::move(options));
  CHECK(seen.wrong.empty());
  CHECK(seen.together > 0);
  CHECK(seen.partings == 0);
}

namespace {

// The lanes live as long as the run does.
VirtualRunOptions OverLanes(VirtualRunOptions options, const std::shared_ptr<FakeLanes>& lanes) {
  options.lanes = [lanes](const NodeId&) { return [lanes] { return lanes->Make(); }; };
  return options;
}

}  // namespace

TEST_CASE("Cohorts: a member that dies, stops or is cut off costs no round", "[sim][cohorts]") {
  const auto* fault = GENERATE("speaker dies", "deputy dies", "speaker hangs", "deputy hangs",
                               "speaker is replaced", "speaker is cut off", "deputy is cut off",
                               "two cannot hear each other");
  const VirtualMath math = GENERATE(VirtualMath::kModelled, VirtualMath::kTiny);
  const int32_t overlap = GENERATE(0, 1);
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    INFO(fault << ", seed " << seed << (math == VirtualMath::kTiny ? ", with arithmetic" : "")
               << (overlap > 0 ? ", with overlap" : ""));
    VirtualRunOptions options = TwoSites(math, seed);
    options.config.cluster.overlap_steps = overlap;
    CheckThrough(TrainThrough(fault, seed, std::move(options)));
  }
}

TEST_CASE("Cohorts: sums go over lanes where all members have one", "[sim][cohorts]") {
  const int32_t overlap = GENERATE(0, 1);
  const auto train = [&](const std::shared_ptr<FakeLanes>& lanes, int64_t* bytes_of_rings) {
    VirtualRunOptions options = TwoSites(VirtualMath::kTiny, 1);
    options.config.cluster.overlap_steps = overlap;
    VirtualRun run(lanes ? OverLanes(std::move(options), lanes) : std::move(options));
    run.WatchSends([&](const NodeId&, const Message& message) {
      if (std::holds_alternative<GroupValues>(message)) *bytes_of_rings += WireSize(message);
    });
    VirtualOutcome outcome = run.Run();
    CHECK(EndOf(run, outcome).empty());
    CHECK(run.checkers().partings() == 0);
    return outcome;
  };
  int64_t with = 0, again = 0, without = 0;
  const auto lanes = std::make_shared<FakeLanes>();
  const VirtualOutcome fast = train(lanes, &with), plain = train(nullptr, &without);
  CHECK(fast.sums.sums == plain.sums.sums);
  CHECK(lanes->sums > 0);
  // Of each member's sums a cohort makes one.
  CHECK(fast.sums.sums >= 2 * lanes->sums);
  CHECK(fast.sums.HiddenFraction() > 0.5);  // in parts, or behind the next step
  CHECK(fast.sums.sums <= kNodesOfSite * lanes->sums);
  CHECK(with < without / 10);
  CHECK(fast.loss_last == Approx(plain.loss_last).epsilon(1e-3));
  CHECK(train(std::make_shared<FakeLanes>(), &again).trace_hash == fast.trace_hash);
}

TEST_CASE("Cohorts: a cohort with a member that has no lane sums over its ring", "[sim][cohorts]") {
  PipelinePlan plan;
  const Seen all = Train(TwoSites(VirtualMath::kTiny, 1), [&](auto&, const auto& p) { plan = p; });
  REQUIRE(all.wrong.empty());
  std::set<NodeId> lacking;  // one of each cohort
  for (const StageAssignment& stage : plan.stages) {
    for (const NodeId& node : stage.replicas) lacking.insert(CohortOf(plan, node).back());
  }
  const auto lanes = std::make_shared<FakeLanes>();
  VirtualRunOptions some = TwoSites(VirtualMath::kTiny, 1);
  some.lanes = [&](const NodeId& node) {
    return lacking.contains(node) ? GroupLaneFactory() : [lanes] { return lanes->Make(); };
  };
  const Seen seen = Train(std::move(some));
  CHECK(seen.wrong.empty());
  CHECK(seen.partings == 0);
  CHECK(lanes->sums == 0);
}

TEST_CASE("Cohorts: a lane that fails, or never ends, costs a wait, and the ring serves",
          "[sim][cohorts][error]") {
  using Fault = FakeLanes::Fault;
  const Fault fault =
      GENERATE(Fault::kNoId, Fault::kFailsAtOne, Fault::kNeverEndsAtOne, Fault::kFailsAtAll);
  const int64_t from = GENERATE(0, 5);
  const int32_t overlap = GENERATE(0, 1);
  const auto lanes = std::make_shared<FakeLanes>(fault, from);
  VirtualRunOptions options = TwoSites(VirtualMath::kTiny, 1);
  options.config.cluster.overlap_steps = overlap;
  const Seen seen = Train(OverLanes(std::move(options), lanes));
  CHECK(seen.wrong.empty());
  CHECK(seen.together > 0);
  CHECK(seen.partings == 0);
  CHECK(seen.rounds == 6);
  const bool waits = fault == Fault::kNeverEndsAtOne;
  CHECK(seen.longest_s < (waits ? Cohort::kLanePatience.seconds() + 5 : 5));
}

TEST_CASE("Cohorts: who waits for a slow member does not give its lane up", "[sim][cohorts]") {
  const auto lanes = std::make_shared<FakeLanes>();
  bool went_back = false;
  const Seen seen = Train(
      OverLanes(TwoSites(VirtualMath::kTiny, 1), lanes),
      [](VirtualRun& run, const PipelinePlan& plan) {
        const NodeId who = LargestCohort(plan)[1];
        run.simulation().At(run.simulation().now(), [who](auto& s) { s.SlowDevice(who, 3e5); });
        run.simulation().At(run.simulation().now() + Cohort::kLanePatience * 2,
                            [who](auto& s) { s.SlowDevice(who, 1); });
      },
      0,
      [&](const VirtualEvent& event) {
        went_back = went_back || (event.kind == "cohort_sums" &&
                                  event.fields.find("messages") != std::string::npos);
      });
  CHECK(seen.wrong == "");
  CHECK(seen.longest_s > 1.5 * Cohort::kLanePatience.seconds());
  CHECK(!went_back);
  CHECK(lanes->sums > 0);
}

TEST_CASE("Cohorts: with lanes, too, a member that dies, stops or is cut off costs no round",
          "[sim][cohorts][error]") {
  const auto* fault = GENERATE("speaker dies", "deputy dies", "deputy hangs", "speaker is replaced",
                               "deputy is cut off");
  const int32_t overlap = GENERATE(0, 1);
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    INFO(fault << ", seed " << seed << (overlap > 0 ? ", with overlap" : ""));
    const auto lanes = std::make_shared<FakeLanes>();
    VirtualRunOptions options = TwoSites(VirtualMath::kTiny, seed);
    options.config.cluster.overlap_steps = overlap;
    CheckThrough(TrainThrough(fault, seed, OverLanes(std::move(options), lanes)));
    CHECK(lanes->sums > 0);
  }
}
