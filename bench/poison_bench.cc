// What poisoned deltas do to a run, attack by attack and mode by mode: whole runs on virtual time
// with real arithmetic, two stages of eight replicas, a quarter of each of which lies in every
// round. The figure is the last loss over that of the same run in which nobody lies and means are
// plain; mean of the seeds. And when liars are put out (coordinator/wild_deltas.h), and who is not
// one.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "sim/virtual_run.h"

namespace skerry::bench {
namespace {

constexpr int32_t kStages = 2, kReplicas = 8;
constexpr int64_t kSteps = 128, kInnerSteps = 2;
constexpr double kGoal = 1.02;
constexpr double kRoundsToBan = 3, kFalseBans = 1;  // of a liar; of the honest, in 10,000 rounds

struct Attack {
  const char* name;
  WildDelta delta;
  int32_t liars;  // of each stage
  bool is_gross = false;
};
const std::vector<Attack> kAttacks = {
    {"nobody lies", {}, 0},
    {"sign flip", {-1, false}, 2},
    {"sign flip, x 10", {-10, false}, 2, true},
    {"scaled, x 1000", {1000, false}, 2, true},
    {"noise as large as a delta", {1, true}, 2},
    {"noise, x 300", {300, true}, 2, true},
    {"copied from another", {.factor = 1, .is_copy = true}, 2},
    {"zero", {1e-30, false}, 2},
    {"drift as large as a delta, one liar", {1, false, true}, 1},
    {"drift as large as a delta, colluding", {1, false, true}, 2},
    {"drift, x 10, colluding", {10, false, true}, 2, true},
};

struct Mode {
  const char* name;
  OuterRobust robust;
  float limit;
};
const std::vector<Mode> kModes = {{"none", OuterRobust::kNone, 3},
                                  {"screen", OuterRobust::kScreen, 3},
                                  {"clip 1", OuterRobust::kClip, 1},
                                  {"trim", OuterRobust::kTrim, 3}};

VirtualRunOptions Fleet(const Mode& mode, OuterReduce reduce, uint64_t seed) {
  VirtualRunOptions options;
  RunConfig& config = options.config;
  config.seed = options.seed = seed;
  config.steps = kSteps;
  config.nodes_min = kStages * kReplicas;
  config.replan_s = 0;
  config.model = {
      .vocab = 64, .hidden = 64, .layers = 4, .heads = 2, .kv_heads = 1, .ffn = 256, .context = 16};
  if (reduce == OuterReduce::kSharded) config.model.layers = 32;  // each has a part to sum
  config.outer.inner_steps = kInnerSteps;
  config.outer.overlap_steps = 1;
  config.outer.reduce = reduce;
  config.outer.robust = mode.robust;
  config.outer.robust_limit = mode.limit;
  config.outer.robust_trim = 0.25f;
  config.pipeline.stages = kStages;
  config.pipeline.microbatches_per_step = 2 * kReplicas;
  config.pipeline.sequences_per_microbatch = 1;
  options.math = VirtualMath::kTiny;
  VirtualNode node;
  node.device = {"simulated", "simulated", 0.05, int64_t{1} << 34};
  options.nodes.assign(size_t{kStages} * kReplicas, node);
  options.link = [](const NodeId&, const NodeId&) {
    return SimLink{.one_way = Duration::Millis(20), .bytes_per_s = 1e7, .jitter = {}};
  };
  options.limit = Duration::Seconds(36000);
  options.plans_quickly = true;
  options.exports = true;
  return options;
}

// As soon as there is a plan: before anybody has encoded anything.
void Corrupt(VirtualRun& run, const Attack& attack, std::set<std::string>& liars) {
  run.simulation().At(run.simulation().now() + Duration::Millis(100), [&](Simulation&) {
    const auto& plan = run.checkers().state().plan;
    if (!plan) return Corrupt(run, attack, liars);
    for (const StageAssignment& stage : plan->stages) {
      for (int32_t i = 0; i < attack.liars; ++i) {
        const NodeId& node = stage.replicas[static_cast<size_t>(i)];
        for (int32_t n = 0; n < kStages * kReplicas; ++n) {
          if (VirtualRun::node(n) == node) run.faults(n).wild = attack.delta;
        }
        liars.insert(node.Short());
      }
    }
  });
}

struct Poisoned {
  double loss = 0;
  int64_t honest_screened = 0, honest_out = 0, honest_rounds = 0;  // rounds of a node
  int64_t liars_in = 0;                                            // until the end
  int64_t rounds_to_ban = 0;  // that anybody put out was in, the most
};

// Who was put out for its deltas, and after how many rounds with it.
void CountBans(const VirtualRun& run, const std::set<std::string>& liars, Poisoned& poisoned) {
  std::map<std::string, int64_t> rounds;
  poisoned.liars_in = static_cast<int64_t>(liars.size());
  for (const VirtualEvent& event : run.events()) {
    const auto fields = nlohmann::json::parse("{" + event.fields + "}");
    if (event.kind == "applied") ++rounds[fields["node"]];
    if (event.kind == "screened" && !liars.contains(fields["node"])) ++poisoned.honest_screened;
    if (event.kind != "dead") continue;
    const std::string node = fields["node"];
    if (!liars.contains(node)) {
      ++poisoned.honest_out;
      continue;
    }
    --poisoned.liars_in;
    poisoned.rounds_to_ban = std::max(poisoned.rounds_to_ban, rounds[node]);
  }
}

Poisoned Train(const Mode& mode, OuterReduce reduce, const Attack& attack, uint64_t seed) {
  VirtualRun run(Fleet(mode, reduce, seed));
  std::set<std::string> liars;
  Corrupt(run, attack, liars);
  const VirtualOutcome outcome = run.Run();
  Poisoned poisoned{outcome.loss_last};
  if (!outcome.finished || !outcome.violations.empty()) poisoned.loss = INFINITY;
  poisoned.honest_rounds = kStages * (kReplicas - attack.liars) * kSteps / kInnerSteps;
  CountBans(run, liars, poisoned);
  return poisoned;
}

int Run(int argc, char** argv) {
  Bench bench("poison", argc, argv, {"--seeds", "--attack"});
  const std::string said = bench.Option("--seeds");
  const auto seeds = static_cast<uint64_t>(said.empty() ? 3 : std::max(1, std::atoi(said.c_str())));
  const std::string only = bench.Option("--attack");  // part of a name
  for (const OuterReduce reduce : {OuterReduce::kAll, OuterReduce::kSharded}) {
    const std::string how = reduce == OuterReduce::kAll ? "all-to-all, " : "sharded, ";
    std::vector<double> clean;
    for (const Mode& mode : kModes) {
      Poisoned honest;
      for (const Attack& attack : kAttacks) {
        if (attack.liars > 0 && std::string(attack.name).find(only) == std::string::npos) continue;
        double ratio = 0;
        int64_t rounds_to_ban = 0, liars_in = 0;
        for (uint64_t seed = 1; seed <= seeds; ++seed) {
          const Poisoned run = Train(mode, reduce, attack, seed);
          if (clean.size() < seed) clean.push_back(run.loss);  // the first of all is clean
          ratio += run.loss / clean[seed - 1] / static_cast<double>(seeds);
          honest.honest_screened += run.honest_screened;
          honest.honest_out += run.honest_out;
          honest.honest_rounds += run.honest_rounds;
          liars_in += run.liars_in;
          rounds_to_ban = std::max(rounds_to_ban, run.rounds_to_ban);
        }
        const std::string what = how + mode.name + ": " + attack.name;
        if (mode.robust == OuterRobust::kNone) {
          bench.Record(what, ratio, "loss");
        } else {
          bench.AtMost(what, ratio, "loss", kGoal);
        }
        if (attack.is_gross && mode.robust == OuterRobust::kScreen) {
          bench.AtMost(what + ": liars not put out", static_cast<double>(liars_in), "", 0);
          bench.AtMost(what + ": put out after", static_cast<double>(rounds_to_ban), "rounds",
                       kRoundsToBan);
        }
      }
      const auto of_rounds = [&](int64_t count) {
        return 1e4 * static_cast<double>(count) / static_cast<double>(honest.honest_rounds);
      };
      bench.Record(how + mode.name + ": honest left out", of_rounds(honest.honest_screened),
                   "of 10,000");
      bench.AtMost(how + mode.name + ": honest put out", of_rounds(honest.honest_out), "of 10,000",
                   kFalseBans);
    }
  }
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}
