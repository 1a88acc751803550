// Joining a stage in training from several donors at once, under faults, with real arithmetic on
// virtual time (docs/PROTOCOL.md, 16 to 20; docs/decisions/0031-joining.md).
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "pipeline/plan/route.h"
#include "sim/virtual_run.h"
#include "tests/sim/sharded_fleet.h"

using namespace skerry;
using skerry::testing::EightNodes;
using skerry::testing::EndOf;

namespace {

// One region, 40 ms of round trip, every node on a line of its own.
NetworkSpec Lines(size_t nodes, double bytes_per_s, double newcomer_down_bytes_per_s) {
  NetworkSpec network;
  network.regions = {"here"};
  network.paths = {{.one_way = Duration::Millis(20), .jitter = {}}};
  for (size_t i = 0; i <= nodes; ++i) {
    SiteSpec site;
    site.up_bytes_per_s = bytes_per_s;
    site.down_bytes_per_s = i == nodes ? newcomer_down_bytes_per_s : bytes_per_s;
    network.sites.push_back(site);
    network.site_of_node.push_back(static_cast<int32_t>(i));
  }
  return network;
}

// Two stages of four; one node more comes late, when one of stage 1 is dead, and fills its slot.
// The state of the stage, about 6 MB, takes that one several seconds.
VirtualRunOptions LateComer() {
  VirtualRunOptions options = EightNodes();
  options.math = VirtualMath::kTiny;
  options.config.steps = 80;
  options.config.model.hidden = 128;
  options.config.model.ffn = 512;
  options.config.outer.codec = DeltaCodec::kTernary;
  options.nodes.push_back(options.nodes.front());
  options.nodes.back().joins = Instant() + Duration::Seconds(30);
  options.network = Lines(options.nodes.size(), 2e7, 1e6);
  options.link = nullptr;
  return options;
}

// A replica of stage 1 dies once the plan is known.
void KillOne(VirtualRun* run, double at_s = 25) {
  run->simulation().At(Instant() + Duration::Seconds(at_s), [run](Simulation& simulation) {
    const auto& plan = run->checkers().state().plan;
    if (plan) simulation.CrashAt(simulation.now(), plan->stages[1].replicas[0]);
  });
}

std::vector<nlohmann::json> EventsOf(const VirtualRun& run, const std::string& kind) {
  std::vector<nlohmann::json> found;
  for (const VirtualEvent& event : run.events()) {
    if (event.kind == kind) found.push_back(nlohmann::json::parse("{" + event.fields + "}"));
  }
  return found;
}

// The newcomer's last word of its transfer.
nlohmann::json Transfer(const VirtualRun& run) {
  const auto said = EventsOf(run, "state");
  return said.empty() ? nlohmann::json() : said.back();
}

// Kills a replica of the stage that somebody joins, `every` seconds, `deaths` times, never the
// last.
class Killer {
 public:
  Killer(VirtualRun* run, double every_s, int deaths) : run_(run), left_(deaths) { Arm(every_s); }
  int killed() const { return killed_; }

 private:
  void Arm(double every_s) {
    run_->simulation().At(run_->simulation().now() + Duration::Seconds(every_s),
                          [this, every_s](Simulation&) {
                            Kill();
                            if (left_ > 0) Arm(every_s);
                          });
  }
  void Kill() {
    const auto& plan = run_->checkers().state().plan;
    if (!plan) return;
    for (const Joiner& joiner : plan->joining) {
      if (joiner.IsFixed()) continue;
      const int32_t stage = SlotOf(*plan, joiner.node)->stage;
      std::vector<NodeId> up;
      for (const NodeId& node : LiveReplicas(*plan, stage)) {
        if (run_->simulation().IsUp(node)) up.push_back(node);
      }
      if (up.size() < 2) return;
      run_->simulation().CrashAt(run_->simulation().now(), up.front());
      ++killed_;
      --left_;
      return;
    }
  }
  VirtualRun* run_;
  int left_;
  int killed_ = 0;
};

}  // namespace

TEST_CASE("Joining: the state comes from all replicas at once, each chunk once", "[sim][join]") {
  VirtualRun run(LateComer());
  KillOne(&run);
  const VirtualOutcome outcome = run.Run();
  CHECK(EndOf(run, outcome) == "");
  CHECK(run.checkers().handovers() == 1);
  CHECK(EventsOf(run, "state_root").size() == 1);
  const nlohmann::json transfer = Transfer(run);
  INFO(transfer.dump());
  CHECK(transfer["donors_mb"].size() == 3);
  CHECK(transfer["asked_again"] == 0);
  CHECK(transfer["asked_twice"] <= 6);  // at the end, where a donor is slow
  CHECK(transfer["mb"] == transfer["of_mb"]);
  // A line of 1 MB/s, all of it but what handshakes and headers take.
  CHECK(transfer["mb"].get<double>() / transfer["seconds"].get<double>() > 0.9);
}

TEST_CASE("Joining: donors die every two seconds, what is here stays", "[sim][join]") {
  VirtualRun run(LateComer());
  KillOne(&run);
  const Killer killer(&run, 2, 2);
  const VirtualOutcome outcome = run.Run();
  CHECK(EndOf(run, outcome) == "");
  const nlohmann::json transfer = Transfer(run);
  INFO(transfer.dump());
  CHECK(killer.killed() == 2);
  CHECK(transfer["mb"] == transfer["of_mb"]);
  CHECK(EventsOf(run, "restored").size() == 1);
  CHECK(run.checkers().handovers() >= 1);
}

TEST_CASE("Joining: a donor that hangs is left for the others", "[sim][join]") {
  VirtualRun run(LateComer());
  KillOne(&run);
  run.simulation().At(Instant() + Duration::Seconds(34), [&](Simulation& simulation) {
    const NodeId donor = LiveReplicas(*run.checkers().state().plan, 1).front();
    simulation.Hang(donor, simulation.now(), simulation.now() + Duration::Seconds(6));
  });
  const VirtualOutcome outcome = run.Run();
  CHECK(EndOf(run, outcome) == "");
  const nlohmann::json transfer = Transfer(run);
  INFO(transfer.dump());
  CHECK(transfer["donors_mb"].size() == 3);
  CHECK(transfer["seconds"].get<double>() < 9);
  CHECK(transfer["asked_again"].get<int>() + transfer["asked_twice"].get<int>() >= 1);
  CHECK(run.checkers().handovers() == 1);
}

TEST_CASE("Joining: a donor of false moments is found out, one of a false state is put out",
          "[sim][join]") {
  VirtualRunOptions options = LateComer();
  constexpr int32_t kLiar = 2;  // who gives the most, so that moments are among it
  options.liars = {kLiar};
  const bool in_moments = GENERATE(true, false);
  VirtualRun run(options);
  (in_moments ? run.faults(kLiar).false_moments : run.faults(kLiar).false_state) = true;
  KillOne(&run);
  const VirtualOutcome outcome = run.Run();
  INFO((in_moments ? "moments" : "state"));
  CHECK(EndOf(run, outcome) == "");
  CHECK(EventsOf(run, "state_refuted").size() == (in_moments ? 1 : 0));
  CHECK(EventsOf(run, "state_mismatch").size() == (in_moments ? 0 : 1));
  CHECK(run.checkers().handovers() == 1);
  for (const auto& event : EventsOf(run, in_moments ? "state_refuted" : "state_mismatch")) {
    CHECK(event["node"] == VirtualRun::node(kLiar).Short());
  }
}

TEST_CASE("Joining: a joiner that dies and comes back begins again, and gets there",
          "[sim][join]") {
  VirtualRun run(LateComer());
  KillOne(&run);
  run.simulation().CrashAt(Instant() + Duration::Seconds(36), VirtualRun::node(8));
  run.simulation().StartAt(Instant() + Duration::Seconds(39), VirtualRun::node(8));
  const VirtualOutcome outcome = run.Run();
  CHECK(EndOf(run, outcome) == "");
  CHECK(EventsOf(run, "state_root").size() == 2);
  CHECK(EventsOf(run, "restored").size() == 1);
  CHECK(run.checkers().handovers() == 1);
}

TEST_CASE("Joining: where the last donor dies the stage is lost, as without a joiner",
          "[sim][join]") {
  VirtualRunOptions options = LateComer();
  options.config.checkpoint.every_rounds = 1;
  VirtualRun run(options);
  KillOne(&run, 30);
  run.simulation().At(Instant() + Duration::Seconds(40), [&](Simulation& simulation) {
    for (const NodeId& donor : LiveReplicas(*run.checkers().state().plan, 1)) {
      simulation.CrashAt(simulation.now(), donor);
      simulation.StartAt(simulation.now() + Duration::Seconds(5), donor);
    }
  });
  const VirtualOutcome outcome = run.Run();
  CHECK(EndOf(run, outcome) == "");
}

TEST_CASE("Joining: the same seed gives the same transfer", "[sim][join]") {
  uint64_t hashes[2] = {};
  for (uint64_t& hash : hashes) {
    VirtualRunOptions options = LateComer();
    options.config.steps = 24;
    VirtualRun run(options);
    KillOne(&run);
    const Killer killer(&run, 2, 2);
    hash = run.Run().trace_hash;
  }
  CHECK(hashes[0] == hashes[1]);
}
