// Whole runs in which a stage's replica sends on what came as if it had worked on it: the others of
// its stage find that and it is put out; the honest never are.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/sharded_fleet.h"

using namespace skerry;
using skerry::testing::EightNodes;
using skerry::testing::EndOf;

namespace {

VirtualRunOptions Fleet(uint64_t seed) {
  VirtualRunOptions options = EightNodes();
  options.math = VirtualMath::kTiny;
  options.config.steps = 60;
  options.config.pipeline.microbatches_per_step = 8;
  options.config.pipeline.work_checks = 0.2f;
  options.seed = seed;
  return options;
}

struct Watched {
  std::string wrong;
  std::set<std::string> put_out;
  std::vector<std::string> doubts;  // what events of doubt said
};

// Whose faults are set: the first replica of the last stage, as the plan names it.
Watched Train(VirtualRunOptions options, bool lies) {
  VirtualRun run(std::move(options));
  Watched watched;
  std::string liar;
  run.WatchMessages([&](Instant, const Message& message) {
    const auto* update = std::get_if<PlanUpdate>(&message);
    if (!lies || !liar.empty() || update == nullptr) return;
    const NodeId node = update->plan->stages.back().replicas.front();
    liar = node.Short();
    for (int32_t i = 0; i < 8; ++i) {
      if (VirtualRun::node(i) == node) run.faults(i).passes_on = true;
    }
  });
  const VirtualOutcome outcome = run.Run();
  watched.wrong = EndOf(run, outcome);
  for (const VirtualEvent& event : run.events()) {
    const auto fields = nlohmann::json::parse("{" + event.fields + "}", nullptr, false);
    if (event.kind == "dead") {
      const std::string node = fields["node"];
      watched.put_out.insert(node == liar ? "the liar" : node);
    }
    if (event.kind.starts_with("work_")) watched.doubts.push_back(event.kind + " " + event.fields);
  }
  return watched;
}

}  // namespace

TEST_CASE("False work: who passes on what came is put out, nobody else", "[sim][work]") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Watched watched = Train(Fleet(seed), true);
    INFO("seed " << seed << (watched.doubts.empty() ? "" : ": " + watched.doubts.front()));
    CHECK(watched.wrong == "");
    CHECK(watched.put_out == std::set<std::string>{"the liar"});
  }
}

TEST_CASE("False work: among the honest nobody is put out", "[sim][work]") {
  VirtualRunOptions options = Fleet(11);
  options.config.pipeline.work_checks = 1;
  SECTION("rounds of two steps") {}
  SECTION("rounds of twenty steps, between which replicas drift apart") {
    options.config.outer.inner_steps = 20;
  }
  SECTION("boundaries in int8") {
    options.config.pipeline.slow_link_codec = DeltaCodec::kInt8;
  }
  const Watched watched = Train(std::move(options), false);
  CHECK(watched.wrong == "");
  CHECK(watched.put_out.empty());
}
