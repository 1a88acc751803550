// A replica whose uplink is starved for a while: rounds go on without it, and what it had queued of
// them is taken back instead of delaying its next message (docs/PROTOCOL.md, 33).
#include <catch2/catch.hpp>
#include <set>

#include "pipeline/plan/route.h"
#include "sim/virtual_run.h"
#include "tests/sim/sharded_fleet.h"

using namespace skerry;
using skerry::testing::EndOf;

namespace {

constexpr double kLine = 12.5e6;  // bytes/s

// Two stages of `replicas`, each node behind a line of its own; that of the last is starved from
// `from_s` for `for_s`.
VirtualRunOptions Starved(int32_t replicas, double from_s, double for_s) {
  VirtualRunOptions options = skerry::testing::EightNodes();
  RunConfig& config = options.config;
  config.steps = 256;
  config.nodes_min = 2 * replicas;
  config.node_silent_s = 4;
  config.model.hidden = 512;
  config.model.ffn = 1408;
  config.outer.inner_steps = 4;
  config.outer.overlap_steps = 2;
  config.pipeline.microbatches_per_step = 2 * replicas;
  options.exports = false;
  options.nodes.resize(static_cast<size_t>(2 * replicas));
  for (VirtualNode& node : options.nodes) node.device.gflops = 5;
  options.link = nullptr;
  NetworkSpec spec;
  spec.regions = {"here"};
  PathSpec path;
  path.one_way = Duration::Millis(10);
  spec.paths = {path};
  for (int32_t i = 0; i <= 2 * replicas; ++i) {
    SiteSpec site;
    site.up_bytes_per_s = site.down_bytes_per_s = i == 0 ? 10 * kLine : kLine;
    spec.sites.push_back(site);
    spec.site_of_node.push_back(i);
  }
  const int32_t last = 2 * replicas;
  spec.site_changes = {{Instant() + Duration::Seconds(from_s), last, kLine / 40, kLine},
                       {Instant() + Duration::Seconds(from_s + for_s), last, kLine, kLine}};
  options.network = spec;
  return options;
}

struct Obsolete : SimulationObserver {
  VirtualRun* run = nullptr;
  int64_t delivered = 0, withdrawn = 0;
  std::set<int64_t> rounds;

  bool IsOfAbsent(const NodeId& from, int32_t stage, int64_t round) const {
    const auto& plan = run->checkers().state().plan;
    return plan && IsAbsent(*plan, stage, round, from);
  }
  void OnDelivered(Instant, const NodeId& from, const NodeId&, const Message& message) override {
    const auto* delta = std::get_if<Delta>(&message);
    if (delta == nullptr || !IsOfAbsent(from, delta->stage, delta->round)) return;
    delivered += WireSize(message);
    rounds.insert(delta->round);
  }
  void OnWithdrawn(Instant, const NodeId& from, const NodeId&, const Message& message) override {
    const auto* delta = std::get_if<Delta>(&message);
    CHECK((delta == nullptr || IsOfAbsent(from, delta->stage, delta->round)));
    withdrawn += WireSize(message);
    if (delta != nullptr) rounds.insert(delta->round);
  }
};

}  // namespace

TEST_CASE("Withdrawn: a starved replica does not send what rounds went on without", "[sim][late]") {
  const int32_t replicas = GENERATE(3, 4);  // all-to-all, sharded
  VirtualRun run(Starved(replicas, 24, 60));
  Obsolete obsolete;
  obsolete.run = &run;
  run.simulation().Observe(&obsolete);
  const VirtualOutcome outcome = run.Run();
  CHECK(EndOf(run, outcome) == "");  // exactly-once delivery of all else is among the checks
  INFO(outcome.virtual_s << " s, " << obsolete.rounds.size()
                         << " rounds without it, obsolete: " << obsolete.delivered
                         << " bytes delivered, " << obsolete.withdrawn << " taken back");
  CHECK(obsolete.rounds.size() >= 2);
  CHECK(outcome.bytes_withdrawn == obsolete.withdrawn);
  CHECK(obsolete.withdrawn > obsolete.delivered);
}
