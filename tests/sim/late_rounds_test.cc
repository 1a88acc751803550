// Whole runs in which replicas of one stage do not hear each other for a while, or one is late:
// the others go on, and nothing that anybody learnt is lost (the checkers' law of conservation).
#include <catch2/catch.hpp>
#include <optional>
#include <set>

#include "pipeline/plan/route.h"
#include "sim/virtual_run.h"
#include "tests/sim/sharded_fleet.h"

using namespace skerry;
using skerry::testing::EightNodes;
using skerry::testing::EndOf;

namespace {

// Two stages of `replicas`; three rounds before anybody can be late.
VirtualRunOptions Fleet(int32_t replicas) {
  VirtualRunOptions options = EightNodes();
  options.nodes.resize(static_cast<size_t>(2 * replicas));
  options.config.nodes_min = 2 * replicas;
  options.config.steps = 24;
  options.config.node_silent_s = 4;
  options.config.pipeline.microbatches_per_step = 2 * replicas;
  options.math = VirtualMath::kTiny;
  return options;
}

struct Seen {
  std::string wrong;
  int64_t rounds = 0;
  std::set<Absence> absent;
  std::set<int64_t> short_rounds;  // of stage 1, frozen without somebody
  size_t last_round = 0;           // who took part in it
  double finished_s = 0;
  size_t dead = 0;
};

// The last replica of stage 1 and another do not hear each other from the time on that half of the
// run takes.
Seen RunWithCut(VirtualRunOptions options, double cut_s, double for_s, bool one_way) {
  const auto replicas = options.nodes.size() / 2;
  VirtualRun* running = nullptr;
  options.link = [&, link = options.link](const NodeId& from, const NodeId& to) {
    SimLink way = link(from, to);
    const double now_s = (running->simulation().now() - Instant()).seconds();
    if (now_s < cut_s || now_s >= cut_s + for_s || !running->checkers().state().plan) return way;
    const auto& nodes = running->checkers().state().plan->stages[1].replicas;
    const bool is_cut = (from == nodes.back() && to == nodes.front()) ||
                        (!one_way && from == nodes.front() && to == nodes.back());
    if (is_cut) way.loss = 1;
    return way;
  };
  VirtualRun run(std::move(options));
  running = &run;
  Seen seen;
  const VirtualOutcome outcome = run.Run();
  seen.wrong = EndOf(run, outcome);
  seen.rounds = outcome.rounds;
  for (const auto& [version, plan] : run.checkers().plans()) {
    seen.absent.insert(plan->absent.begin(), plan->absent.end());
    seen.dead = std::max(seen.dead, plan->dead.size());
  }
  for (const auto& [key, commit] : run.checkers().state().commits) {
    const bool is_all = commit.participants.size() == replicas;
    if (key.first == 1 && !is_all) seen.short_rounds.insert(key.second);
    if (key.first == 1) seen.last_round = commit.participants.size();
  }
  seen.finished_s = outcome.virtual_s;
  return seen;
}

// As soon as somebody is absent from a round of stage 1 that is not frozen, the others of it die.
void KillOthersOfAbsent(VirtualRun& run, std::optional<Absence>* absence) {
  run.simulation().At(run.simulation().now() + Duration::Millis(10), [&, absence](Simulation& now) {
    const RunState& state = run.checkers().state();
    if (state.plan) {
      for (const Absence& known : state.plan->absent) {
        if (known.stage == 1 && known.round == state.RoundsCommitted(1)) *absence = known;
      }
    }
    if (!*absence) return KillOthersOfAbsent(run, absence);
    for (const NodeId& node : ParticipantsOf(*state.plan, 1, (*absence)->round)) {
      now.CrashAt(now.now(), node);
      now.StartAt(now.now() + Duration::Seconds(1), node);
    }
  });
}

// When a run of these options that nothing befalls is half done.
double HalfOf(const VirtualRunOptions& options) {
  VirtualRun run(options);
  const VirtualOutcome outcome = run.Run();
  REQUIRE(EndOf(run, outcome) == "");
  return outcome.virtual_s - outcome.training_s / 2;
}

}  // namespace

TEST_CASE("Late rounds: a stage goes on while two of its replicas do not hear each other",
          "[sim][late]") {
  const int32_t replicas = GENERATE(3, 4);  // all-to-all, sharded
  VirtualRunOptions options = Fleet(replicas);
  options.config.outer.residual = GENERATE(ResidualPlace::kBuffer, ResidualPlace::kWeights);
  const Seen seen = RunWithCut(options, HalfOf(options), 6, true);
  CHECK(seen.wrong == "");
  CHECK(seen.rounds == 12);
  CHECK(!seen.absent.empty());
  CHECK(!seen.short_rounds.empty());
  CHECK(seen.short_rounds.size() < 6);
  CHECK(seen.last_round == static_cast<size_t>(replicas));
  CHECK(seen.dead == 0);
}

TEST_CASE("Late rounds: nobody is late in first rounds that take as long as was planned",
          "[sim][late]") {
  VirtualRunOptions options = EightNodes();
  options.config.node_silent_s = 1;
  options.config.steps = 6;
  options.config.pipeline.stages = 1;
  options.config.outer.codec = DeltaCodec::kNone;
  options.config.outer.reduce = GENERATE(OuterReduce::kAll, OuterReduce::kSharded);
  options.link = [](const NodeId&, const NodeId&) {
    return SimLink{.one_way = Duration::Millis(20), .bytes_per_s = 3e4, .jitter = {}};
  };
  VirtualRun run(options);
  CHECK(EndOf(run, run.Run()) == "");
  double shortest_s = 1e9;
  for (const auto& [key, applied] : run.checkers().state().applied) {
    for (const auto& [node, said] : applied) shortest_s = std::min(shortest_s, said.transfer_s);
  }
  CHECK(shortest_s > 6);  // what is late where nothing is known
  const PipelinePlan& plan = *run.checkers().state().plan;
  CHECK(plan.settings.round_s > shortest_s);
  for (const auto& [version, known] : run.checkers().plans()) CHECK(known->absent.empty());
}

TEST_CASE("Late rounds: told to wait, it waits", "[sim][late]") {
  VirtualRunOptions options = Fleet(3);
  for (VirtualNode& node : options.nodes) node.device.gflops /= 8;
  const double half_s = HalfOf(options);
  const Seen goes_on = RunWithCut(options, half_s, 50, true);
  options.config.outer.absences = false;
  const Seen waits = RunWithCut(options, half_s, 50, true);
  CHECK(goes_on.wrong == "");
  CHECK(waits.wrong == "");
  CHECK(waits.absent.empty());
  CHECK(waits.finished_s > goes_on.finished_s + 3);
}

TEST_CASE("Late rounds: of two replicas that never hear each other again one trains on",
          "[sim][late]") {
  VirtualRunOptions options = Fleet(2);
  const Seen seen = RunWithCut(options, HalfOf(options), 3000, false);
  CHECK(seen.wrong == "");
  CHECK(seen.rounds == 12);
  CHECK(seen.dead > 0);
}

TEST_CASE("Late rounds: who is absent goes on when all others are gone", "[sim][late]") {
  VirtualRunOptions options = Fleet(GENERATE(3, 4));  // all-to-all, sharded
  const double half_s = HalfOf(options);
  VirtualRun* running = nullptr;
  options.link = [&, link = options.link](const NodeId& from, const NodeId& to) {
    SimLink way = link(from, to);
    const double now_s = (running->simulation().now() - Instant()).seconds();
    const auto& plan = running->checkers().state().plan;
    if (now_s < half_s || now_s > half_s + 20 || !plan) return way;
    const auto& nodes = plan->stages[1].replicas;
    const auto holds = [&](const NodeId& node) { return SlotOf(*plan, node)->stage == 1; };
    const bool are_nodes = SlotOf(*plan, from) && SlotOf(*plan, to);
    const bool is_cut = from == nodes.back() || to == nodes.back();
    if (is_cut && are_nodes && holds(from) && holds(to)) way.loss = 1;
    return way;
  };
  VirtualRun run(std::move(options));
  running = &run;
  std::optional<Absence> absence;
  KillOthersOfAbsent(run, &absence);

  const VirtualOutcome outcome = run.Run();

  CHECK(EndOf(run, outcome) == "");
  REQUIRE(absence);
  const RoundCommit& commit = run.checkers().state().commits.at({1, absence->round});
  REQUIRE(commit.participants.size() == 1);
  CHECK(commit.participants.front().node == absence->node);
}

TEST_CASE("Late rounds: modes with several rounds under way go on as well", "[sim][late]") {
  VirtualRunOptions options = Fleet(3);
  options.config.outer.mode = GENERATE(OuterMode::kStreaming, OuterMode::kCo2);
  options.config.outer.fragments = 2;
  const Seen seen = RunWithCut(options, HalfOf(options), 20, true);
  CHECK(seen.wrong == "");
  CHECK(!seen.absent.empty());
}
