// Whole runs in which a replica sends on activations and gradients of another size than it should:
// it is named, by what it and its neighbours measured, and nobody else is; the honest never are.
#include <catch2/catch.hpp>
#include <cmath>
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
  options.seed = seed;
  return options;
}

struct Watched {
  std::string wrong;
  std::set<std::string> odd, disputed, put_out;
  int64_t said = 0;  // messages about sizes
  std::string events;
  uint64_t trace = 0;
};

// Whose faults are set: the first replica of a stage, as the first plan names it.
Watched Train(VirtualRunOptions options, double scaled, bool of_last_stage = true) {
  const auto nodes = static_cast<int32_t>(options.nodes.size());
  VirtualRun run(std::move(options));
  Watched watched;
  std::string liar;
  run.WatchMessages([&](Instant, const Message& message) {
    watched.said += std::holds_alternative<BoundarySizes>(message) ? 1 : 0;
    const auto* update = std::get_if<PlanUpdate>(&message);
    if (scaled == 1 || !liar.empty() || update == nullptr) return;
    const auto& stages = update->plan->stages;
    const NodeId node = (of_last_stage ? stages.back() : stages.front()).replicas.front();
    liar = node.Short();
    for (int32_t i = 0; i < nodes; ++i) {
      if (VirtualRun::node(i) == node) run.faults(i).scaled = scaled;
    }
  });
  const VirtualOutcome outcome = run.Run();
  watched.trace = outcome.trace_hash;
  watched.wrong = EndOf(run, outcome);
  for (const VirtualEvent& event : run.events()) {
    const auto fields = nlohmann::json::parse("{" + event.fields + "}", nullptr, false);
    const auto add = [&](std::set<std::string>& to) {
      const std::string node = fields["node"];
      to.insert(node == liar ? "the liar" : node);
      watched.events += event.kind + " " + event.fields + "\n";
    };
    if (event.kind == "odd_sizes") add(watched.odd);
    if (event.kind == "sizes_disputed") add(watched.disputed);
    if (event.kind == "dead") add(watched.put_out);
  }
  return watched;
}

}  // namespace

TEST_CASE("Odd sizes: who scales what it sends on is named, nobody else", "[sim][sizes]") {
  const double scaled = GENERATE(16.0, 1.0 / 16, 0.0);
  const bool of_last_stage = GENERATE(true, false);
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Watched watched = Train(Fleet(seed), scaled, of_last_stage);
    INFO("seed " << seed << ", scaled by " << scaled << (of_last_stage ? "" : ", first stage")
                 << "\n"
                 << watched.events);
    CHECK(watched.odd == std::set<std::string>{"the liar"});
    CHECK(watched.disputed.empty());
    CHECK(watched.put_out.empty());  // by that alone nobody is
  }
}

TEST_CASE("Odd sizes: among the honest nobody is named", "[sim][sizes]") {
  VirtualRunOptions options = Fleet(11);
  SECTION("rounds of two steps") {}
  SECTION("rounds of twenty steps, between which replicas drift apart") {
    options.config.outer.inner_steps = 20;
  }
  SECTION("boundaries in int8") {
    options.config.pipeline.slow_link_codec = DeltaCodec::kInt8;
  }
  const Watched watched = Train(options, 1);
  INFO(watched.events);
  CHECK(watched.wrong == "");
  CHECK(watched.said > 8 * 6);
  CHECK(watched.odd.empty());
  CHECK(watched.disputed.empty());
  CHECK(Train(options, 1).trace == watched.trace);
}

// By hand: seeds, liars and honest runs, one line each.
TEST_CASE("Odd sizes: by hand over seeds", "[.sizes-by-hand]") {
  const std::string kind = GENERATE("plain", "high rate", "skips", "three stages");
  for (uint64_t seed = 50; seed < 75; ++seed) {
    for (const int32_t inner : {2, 8, 20}) {
      for (const double scaled : {1.0, 16.0, 0.0}) {
        VirtualRunOptions options = Fleet(seed);
        options.config.steps = 80;
        options.config.outer.inner_steps = inner;
        if (kind == "high rate") options.config.inner.learning_rate *= 10;
        if (kind == "skips" || kind == "three stages") {
          options.config.pipeline.stages = 3;
          options.config.nodes_min = 12;
          options.config.pipeline.microbatches_per_step = 12;
          options.nodes.resize(12, options.nodes.front());
        }
        if (kind == "skips") {
          options.config.model.layers = 6;
          options.config.pipeline.skip_ratio = 0.33;
        }
        const Watched watched = Train(options, scaled);
        std::string others;
        for (const std::string& node : watched.odd) others += node == "the liar" ? "" : " " + node;
        for (const std::string& node : watched.disputed) others += " disputed " + node;
        WARN(kind << ", seed " << seed << ", rounds of " << inner << ", scaled by " << scaled
                  << ": liar " << (watched.odd.contains("the liar") ? "named" : "not named")
                  << ", others:" << (others.empty() ? " none" : others + "\n" + watched.events)
                  << (watched.wrong.empty() ? "" : "; " + watched.wrong));
      }
    }
  }
}
