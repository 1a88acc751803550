// Joining a stage in training while donors die, on virtual time: the production actors over TCP
// flows (sim/flow_network.h), modelled arithmetic. Two stages, one of whose replicas is dead; a
// newcomer fills the slot.
//
//   deaths      a donor is killed every 2 s while the state is on its way
//   calm        nobody else dies: how much longer the others' steps are meanwhile than before
//
// The share of the joiner's line is what the state takes over the seconds from the first chunk
// asked for to the last verified. Sent twice: what crossed that line meanwhile and arrived as no
// message, in chunks, by deaths. Asked again: requests of the dead, most of which they had not
// begun.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/bench.h"
#include "pipeline/plan/route.h"
#include "sim/virtual_run.h"

namespace skerry::bench {
namespace {

struct Case {
  double down_mbps = 100;
  int64_t rtt_ms = 80;
  int32_t replicas = 16;  // of each stage
  int32_t hidden = 512;
  bool deaths = false;
  bool joins = true;
  int64_t steps = 260;
  int64_t node_mbps = 1000;
};

constexpr double kKillEveryS = 2;
constexpr double kJoinsAtS = 200;

NodeId Newcomer(const Case& of) {
  return VirtualRun::node(2 * of.replicas);
}

VirtualRunOptions OptionsOf(const Case& of) {
  VirtualRunOptions options;
  RunConfig& config = options.config;
  const auto nodes = static_cast<size_t>(2 * of.replicas);
  config.steps = of.steps;
  config.nodes_min = static_cast<int32_t>(nodes);
  config.node_silent_s = 8;
  config.replan_s = 0;
  config.model = {.vocab = 256,
                  .hidden = of.hidden,
                  .layers = 12,
                  .heads = 8,
                  .kv_heads = 4,
                  .ffn = 4 * of.hidden,
                  .context = 256};
  config.outer.inner_steps = 8;
  config.outer.overlap_steps = 4;
  config.outer.codec = DeltaCodec::kTernary;
  config.pipeline.stages = 2;
  config.pipeline.microbatches_per_step = 4 * of.replicas;
  config.pipeline.sequences_per_microbatch = 1;
  VirtualNode node;
  // A step of about a second.
  const double width = of.hidden / 512.0;
  node.device = {"simulated", "simulated", 240 * width * width, int64_t{1} << 36};
  options.nodes.assign(nodes + 1, node);
  options.nodes.back().joins = Instant() + Duration::Seconds(of.joins ? kJoinsAtS : 1e6);
  NetworkSpec network;
  network.regions = {"here"};
  network.paths = {{.one_way = Duration::Micros(500 * of.rtt_ms), .jitter = {}}};
  for (size_t i = 0; i <= nodes + 1; ++i) {
    SiteSpec site;
    site.up_bytes_per_s = site.down_bytes_per_s = 125e3 * static_cast<double>(of.node_mbps);
    if (i == nodes + 1) site.down_bytes_per_s = 125e3 * of.down_mbps;
    network.sites.push_back(site);
    network.site_of_node.push_back(static_cast<int32_t>(i));
  }
  options.network = network;
  options.limit = Duration::Seconds(4000);
  options.rules = {"agreement"};
  return options;
}

// What went to the newcomer while its state was on the way, and when steps ended.
class Watch final : public SimulationObserver {
 public:
  Watch(VirtualRun* run, const Case& of) : run_(run), of_(of) {}

  void OnDelivered(Instant, const NodeId&, const NodeId& to, const Message& message) override {
    if (to == Newcomer(of_)) delivered_ += static_cast<double>(WireSize(message));
  }
  void OnEvent(Instant at, const NodeId& process, const std::string& kind,
               const std::string& fields) override {
    const auto said = nlohmann::json::parse("{" + fields + "}", nullptr, false);
    if (kind == "step") steps.push_back(at);
    if (kind == "handover") named = at;
    if (process != Newcomer(of_)) return;
    if (kind == "training") useful = at;
    if (kind != "state") return;
    last = said;
    if (!began) {
      began = at;
      carried_before_ = Carried();
      delivered_ = 0;
    }
    if (said["mb"] == said["of_mb"]) {
      ended = at;
      lost_bytes = Carried() - carried_before_ - delivered_;
    }
  }
  // A donor that is up; nothing when one only is left.
  void Kill(Simulation& simulation) {
    if (!began || ended) return;
    const auto& plan = run_->checkers().state().plan;
    std::vector<NodeId> up;
    for (const NodeId& node : LiveReplicas(*plan, 1)) {
      if (simulation.IsUp(node)) up.push_back(node);
    }
    if (up.size() < 2) return;
    simulation.CrashAt(simulation.now(), up[static_cast<size_t>(deaths) % up.size()]);
    ++deaths;
  }

  std::vector<Instant> steps;
  std::optional<Instant> named, began, ended, useful;
  nlohmann::json last;
  double lost_bytes = 0;
  int64_t deaths = 0;

 private:
  double Carried() {
    for (const auto& use : run_->simulation().network()->Use(run_->simulation().now())) {
      if (use.kind == LinkKind::kSiteDown && use.index == 2 * of_.replicas + 1) return use.bytes;
    }
    return 0;
  }
  VirtualRun* run_;
  Case of_;
  double delivered_ = 0, carried_before_ = 0;
};

// Seconds a step that began and ended within [from, to].
double StepSeconds(const Watch& watch, Instant from, Instant to) {
  std::optional<Instant> first, last;
  int64_t steps = -1;
  for (const Instant at : watch.steps) {
    if (at < from || at > to) continue;
    if (!first) first = at;
    last = at;
    ++steps;
  }
  return steps > 0 ? (*last - *first).seconds() / static_cast<double>(steps) : 0;
}

void Play(const Case& of, std::function<void(VirtualRun&, Watch&)> read) {
  VirtualRun run(OptionsOf(of));
  Watch watch(&run, of);
  run.simulation().Observe(&watch);
  run.simulation().At(Instant() + Duration::Seconds(kJoinsAtS - 20), [&](Simulation& simulation) {
    const auto& plan = run.checkers().state().plan;
    if (plan) simulation.CrashAt(simulation.now(), plan->stages[1].replicas[0]);
  });
  for (int i = 0; of.deaths && i < 400; ++i) {
    run.simulation().At(Instant() + Duration::Seconds(kJoinsAtS + kKillEveryS * i),
                        [&](Simulation& simulation) { watch.Kill(simulation); });
  }
  run.Run();
  read(run, watch);
}

void UnderDeaths(Bench* bench, const std::string& what, Case of) {
  of.deaths = true;
  Play(of, [&](VirtualRun&, Watch& watch) {
    const double seconds = watch.ended ? (*watch.ended - *watch.began).seconds() : 0;
    const double bytes = watch.last.is_null() ? 0 : 1e6 * watch.last.value("of_mb", 0.0);
    const auto deaths = static_cast<double>(std::max<int64_t>(watch.deaths, 1));
    bench->Record(what + ": state", bytes / 1e6, "MB");
    bench->Record(what + ": donors that died", static_cast<double>(watch.deaths), "");
    bench->AtLeast(what + ": of the joiner's line",
                   seconds > 0 ? 100 * bytes / (seconds * 125e3 * of.down_mbps) : 0, "%", 90);
    bench->AtMost(
        what + ": sent twice, a death",
        watch.ended ? watch.lost_bytes / static_cast<double>(kStateChunkBytes) / deaths : 1e9,
        "chunks", 1);
    bench->Record(what + ": asked again, a death",
                  watch.last.is_null() ? 0 : watch.last.value("asked_again", 0.0) / deaths,
                  "chunks");
  });
}

void Calm(Bench* bench, const std::string& what, Case of) {
  Play(of, [&](VirtualRun&, Watch& with) {
    if (!with.ended) return bench->AtMost(what + ": others' steps are longer", 1e9, "%", 5);
    const Instant from = *with.named,
                  to = std::max(*with.ended, *with.named + Duration::Seconds(10));
    of.joins = false;
    Play(of, [&](VirtualRun&, Watch& without) {
      const double base = StepSeconds(without, from, to), joined = StepSeconds(with, from, to);
      bench->Record(what + ": a step", base, "s");
      bench->Record(what + ": the state is on its way for", (*with.ended - *with.named).seconds(),
                    "s");
      bench->AtMost(what + ": others' steps are longer", base > 0 ? 100 * (joined / base - 1) : 1e9,
                    "%", 5);
      bench->AtMost(what + ": from `join` to useful work",
                    with.useful ? (*with.useful - Instant()).seconds() - kJoinsAtS : 1e9, "s", 60);
    });
  });
}

int Run(int argc, char** argv) {
  Bench bench("join", argc, argv);
  UnderDeaths(&bench, "100 Mbit/s, 80 ms", {});
  UnderDeaths(&bench, "20 Mbit/s, 80 ms", {.down_mbps = 20, .hidden = 256});
  UnderDeaths(&bench, "500 Mbit/s, 40 ms", {.down_mbps = 500, .rtt_ms = 40, .hidden = 1024});
  Calm(&bench, "calm, lines of 1 Gbit/s", {.replicas = 4});
  Calm(&bench, "calm, lines of 100 Mbit/s", {.replicas = 4, .node_mbps = 100});
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}
