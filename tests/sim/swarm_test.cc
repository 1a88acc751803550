// Random runs with random faults. A seed that was wrong once stays here for good.

#include "sim/swarm.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <utility>

#include "pipeline/plan/route.h"

using namespace skerry;

namespace {

std::string WrongWith(const SwarmSeed& seed, bool twice = false) {
  const SwarmTry tried = TrySwarmSeed(seed, twice);
  return tried.finding ? std::to_string(seed.seed) + ": " + tried.finding->wrong : "";
}

void CheckSeeds(uint64_t first, uint64_t count) {
  for (uint64_t seed = first; seed < first + count; ++seed) {
    CHECK(WrongWith({seed}) == "");
  }
}

// Two stages of two or three replicas, two rounds, data to fetch, a model to collect.
VirtualRunOptions SmallRun(int32_t nodes = 4) {
  VirtualRunOptions options;
  options.config.steps = 4;
  options.config.nodes_min = nodes;
  options.config.node_silent_s = 8;
  options.config.model = {
      .vocab = 64, .hidden = 32, .layers = 4, .heads = 2, .kv_heads = 1, .ffn = 64, .context = 16};
  options.config.outer.inner_steps = 2;
  options.config.outer.overlap_steps = 1;
  options.config.pipeline.stages = 2;
  options.config.pipeline.microbatches_per_step = 4;
  options.config.pipeline.sequences_per_microbatch = 1;
  VirtualNode node;
  node.device = {"simulated", "simulated", 0.05, int64_t{1} << 34};
  options.nodes.assign(static_cast<size_t>(nodes), node);
  options.link = [](const NodeId&, const NodeId&) {
    return SimLink{.one_way = Duration::Millis(20), .bytes_per_s = 1e7, .jitter = {}};
  };
  options.shards = 1;
  options.exports = true;
  options.limit = Duration::Seconds(3600);
  return options;
}

// What is wrong with a run that must finish, with so many nodes out at most; empty: nothing.
std::string EndOf(VirtualRunOptions options, const std::function<void(VirtualRun&)>& script,
                  size_t out_max = 0) {
  VirtualRun run(std::move(options));
  if (script) script(run);
  const VirtualOutcome outcome = run.Run();
  if (!outcome.violations.empty()) {
    return outcome.violations.front().rule + ": " + outcome.violations.front().what;
  }
  if (!outcome.finished) return outcome.ended;
  const size_t out = run.checkers().state().plan->dead.size();
  return out <= out_max ? "" : std::to_string(out) + " nodes are out";
}

}  // namespace

TEST_CASE("Swarm: work sent to a process that was replaced before the plan is not lost",
          "[sim][swarm]") {
  const uint64_t seed = GENERATE(3, 28, 35, 40, 186);
  CHECK(WrongWith({seed, 1}, true) == "");
}

TEST_CASE("Swarm: who has made its last step still computes what a death sent around again",
          "[sim][swarm]") {
  const uint64_t seed = GENERATE(44, 74, 122);
  CHECK(WrongWith({seed, 1}, true) == "");
}

TEST_CASE("Swarm: a microbatch that comes again many steps later counts once", "[sim][swarm]") {
  const uint64_t seed = GENERATE(236, 444, 596, 659);
  CHECK(WrongWith({seed, 1}, true) == "");
}

TEST_CASE("Swarm: a node whose Welcome died with the coordinator asks again", "[sim][swarm]") {
  CHECK(WrongWith({1122, 1}, true) == "");
}

TEST_CASE("Swarm: a slow fleet is no dead one", "[sim][swarm]") {
  CHECK(WrongWith({43, 1}, true) == "");
}

TEST_CASE("Swarm: with δ = τ a round lands before the next is encoded, however late its commit",
          "[sim][swarm]") {
  CHECK(WrongWith({GENERATE(as<uint64_t>(), 23, 235, 308, 325), 2}, true) == "");
}

TEST_CASE("Swarm: who stands in for a dead node does not wait for what was over before",
          "[sim][swarm]") {
  CHECK(WrongWith({GENERATE(as<uint64_t>(), 1073, 1411), 2}, true) == "");
}

TEST_CASE("Swarm: with δ = τ commits that come late end nobody", "[sim][swarm]") {
  VirtualRunOptions options = SmallRun();
  options.math = VirtualMath::kTiny;
  options.config.outer.inner_steps = options.config.outer.overlap_steps = 1;
  options.link = [](const NodeId& from, const NodeId& to) {
    const bool late = from == VirtualRun::coordinator() || to == VirtualRun::coordinator();
    return SimLink{.one_way = Duration::Millis(late ? 2000 : 5), .bytes_per_s = 1e7, .jitter = {}};
  };
  CHECK(EndOf(std::move(options), {}) == "");
}

TEST_CASE("Swarm: a coordinator that is stopped for a while takes nobody for dead",
          "[sim][swarm]") {
  const double at_s = GENERATE(1.0, 3.0, 5.0, 7.0, 9.0);
  CHECK(EndOf(SmallRun(), [at_s](VirtualRun& run) {
          const Instant at = Instant() + Duration::Seconds(at_s);
          run.simulation().Hang(VirtualRun::coordinator(), at, at + Duration::Seconds(30));
        }) == "");
}

TEST_CASE("Swarm: a delta that no codec made costs its sender its place, and nobody else",
          "[sim][swarm]") {
  VirtualRunOptions options = SmallRun(6);
  options.math = GENERATE(VirtualMath::kModelled, VirtualMath::kTiny);
  options.config.outer.codec = GENERATE(DeltaCodec::kNone, DeltaCodec::kInt8, DeltaCodec::kTopK);
  options.liars = {2};
  CHECK(EndOf(
            std::move(options), [](VirtualRun& run) { run.faults(2).void_deltas = true; }, 1) ==
        "");
}

TEST_CASE("Swarm: a node may start again at any moment", "[sim][swarm]") {
  const int32_t node = GENERATE(range(0, 6));
  for (double at_s = 0.5; at_s < 12; at_s += 0.5) {
    INFO("node " << node << " at " << at_s << " s");
    CHECK(EndOf(
              SmallRun(6),
              [&](VirtualRun& run) {
                const Instant at = Instant() + Duration::Seconds(at_s);
                run.simulation().CrashAt(at, VirtualRun::node(node));
                run.simulation().StartAt(at + Duration::Millis(100), VirtualRun::node(node));
              },
              1) == "");
  }
}

TEST_CASE("Swarm: who stands in for a dead node hears what is over though its link is broken",
          "[sim][swarm]") {
  CHECK(WrongWith({GENERATE(as<uint64_t>(), 84, 192), 4}, true) == "");
}

// Links between nodes of different stages are cut for good after 2 s, one way or both.
struct CutLink {
  int32_t from, to;
  bool both;
};
VirtualRunOptions WithCutLink(const CutLink& cut, const Simulation* const* simulation) {
  VirtualRunOptions options = SmallRun(6);
  options.config.steps = 12;
  options.config.outer.absences = false;  // they help here too, late
  options.config.pipeline.stages = 3;
  options.link = [cut, simulation](const NodeId& from, const NodeId& to) {
    SimLink link{.one_way = Duration::Millis(20), .bytes_per_s = 1e7, .jitter = {}};
    const auto is = [&](int32_t a, int32_t b) {
      return from == VirtualRun::node(a) && to == VirtualRun::node(b);
    };
    const bool cut_now = (*simulation)->now() > Instant() + Duration::Seconds(2);
    if (cut_now && (is(cut.from, cut.to) || (cut.both && is(cut.to, cut.from)))) link.loss = 1;
    return link;
  };
  return options;
}

TEST_CASE("Swarm: a link that breaks between two who reach all others holds nobody up",
          "[sim][swarm]") {
  const Simulation* simulation = nullptr;
  const bool detours = GENERATE(true, false);
  const bool both = GENERATE(true, false);
  int hung = 0;
  for (int32_t a = 0; a < 6; ++a) {
    for (int32_t b = 0; b < 6; ++b) {
      if (a == b || (both && a > b)) continue;
      VirtualRunOptions options = WithCutLink({a, b, both}, &simulation);
      options.config.pipeline.detours = detours;
      options.stops_at_violation = true;
      VirtualRun run(std::move(options));
      simulation = &run.simulation();
      const VirtualOutcome outcome = run.Run();
      const PipelinePlan& plan = *run.checkers().state().plan;
      const bool of_one_stage =
          SlotOf(plan, VirtualRun::node(a))->stage == SlotOf(plan, VirtualRun::node(b))->stage;
      if (of_one_stage) continue;  // their deltas do not arrive either
      INFO("from " << a << " to " << b << (both ? " and back" : "") << ": " << outcome.ended);
      hung += !outcome.finished;
      if (!detours) continue;
      CHECK(outcome.finished);
      CHECK(outcome.violations.empty());
      CHECK(outcome.steps == 12);
      CHECK(plan.dead.empty());
    }
  }
  CHECK((hung > 0) == !detours);
}

// Every fault there is, over links and over flows; in several cases, so that cores share them.
TEST_CASE("Swarm: seeds 100 to 149 end well", "[sim][swarm]") {
  CheckSeeds(100, 50);
}
TEST_CASE("Swarm: seeds 150 to 199 end well", "[sim][swarm]") {
  CheckSeeds(150, 50);
}
TEST_CASE("Swarm: seeds 200 to 249 end well", "[sim][swarm]") {
  CheckSeeds(200, 50);
}
TEST_CASE("Swarm: seeds 250 to 299 end well", "[sim][swarm]") {
  CheckSeeds(250, 50);
}

TEST_CASE("Swarm: pairs that never hear each other again are led over a relay", "[sim][swarm]") {
  for (const uint64_t seed : {416, 545, 675, 1419, 2111, 2254, 2743, 2861}) {
    CHECK(WrongWith({seed}) == "");
  }
}

TEST_CASE("Swarm: what a replaced data node had under way may be missing", "[sim][swarm]") {
  CHECK(WrongWith({4011, 6}) == "");
}

// On lines of 1.6 Mbit/s heartbeats waited behind chunks of a checkpoint: 73 handovers, 65 returns.
TEST_CASE("Swarm: nobody on a slow line is put out for what else it sends", "[sim][swarm]") {
  const SwarmTry tried = TrySwarmSeed({8, 11});
  CHECK_FALSE(tried.finding.has_value());
  CHECK(tried.handovers == 0);
  CHECK(tried.rewinds == 1);  // all of a stage die once
}

TEST_CASE("Swarm: a line on which a probe takes ten seconds is read all the same", "[sim][swarm]") {
  CHECK(WrongWith({62861, 18}) == "");
}

TEST_CASE("Swarm: a seed has one trace, and every draw its own", "[sim][swarm]") {
  const uint64_t seed = GENERATE(range(1, 9));
  CHECK(WrongWith({seed}, true) == "");
  CHECK(TrySwarmSeed({seed}).trace_hash == TrySwarmSeed({seed}).trace_hash);
  CHECK(TrySwarmSeed({seed}).trace_hash != TrySwarmSeed({seed, 1}).trace_hash);
}

TEST_CASE("Swarm: the coordinator may die at every record of its journal, for long or short",
          "[sim][swarm]") {
  const Duration away = Duration::Seconds(GENERATE(0.2, 12.0));
  const VirtualRunOptions calm = SmallRun();
  VirtualRun whole(calm);
  REQUIRE(whole.Run().finished);
  const auto records = static_cast<int64_t>(whole.simulation().journal(whole.coordinator()).size());
  CHECK(records > 30);
  for (int64_t record = 1; record <= records; ++record) {
    VirtualRunOptions troubled = calm;
    troubled.coordinator_crashes[record] = away;
    VirtualRun run(std::move(troubled));
    const VirtualOutcome outcome = run.Run();
    INFO("record " << record << ": " << outcome.ended);
    CHECK(outcome.finished);
    CHECK(outcome.violations.empty());
    CHECK(outcome.steps == calm.config.steps);
    CHECK(run.checkers().state().plan->dead.empty());
  }
}
