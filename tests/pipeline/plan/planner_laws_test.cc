// What holds for plans of any fleet: laws over fleets drawn from seeds.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "common/status.h"
#include "pipeline/plan/route.h"
#include "pipeline/plan/take_part.h"
#include "pipeline/plan/validate.h"
#include "tests/pipeline/plan/random_fleet.h"

namespace skerry {
namespace {

PlannedRun Planned(const PlannerInput& input) {
  auto run = MakePlan(input);
  CAPTURE(ErrorText(run.status()));
  REQUIRE(run.ok());
  const absl::Status sound = ValidatePlan(run->plan, input.config);
  CAPTURE(ErrorText(sound));
  REQUIRE(sound.ok());
  REQUIRE(ValidateMemory(run->plan, input.config, input.devices).ok());
  return *std::move(run);
}

std::vector<uint32_t> ShuffledNames(size_t count, Rng& rng) {
  std::vector<uint32_t> names(count);
  std::iota(names.begin(), names.end(), 1);
  for (size_t i = names.size(); i > 1; --i) std::swap(names[i - 1], names[rng.Below(i)]);
  return names;
}

std::set<NodeId> TakingPartIn(const PipelinePlan& plan) {
  std::set<NodeId> nodes;
  for (const StageAssignment& stage : plan.stages) {
    nodes.insert(stage.replicas.begin(), stage.replicas.end());
  }
  return nodes;
}

TEST_CASE("Laws: relabelling the nodes changes no time, and the same machines fill the slots",
          "[plan][laws]") {
  Rng rng(2, "names");
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const std::vector<DrawnNode> nodes = DrawNodes(6 + seed, seed);
    const PlannedRun plain = Planned(InputOf(nodes));
    const std::vector<uint32_t> names = ShuffledNames(nodes.size(), rng);
    const PlannedRun renamed = Planned(InputOf(nodes, names));
    CAPTURE(seed);
    CHECK(renamed.predicted_step_s == plain.predicted_step_s);
    CHECK(renamed.lower_bound_s == plain.lower_bound_s);
    PipelinePlan expected = plain.plan;  // these fleets have no two nodes alike
    for (StageAssignment& stage : expected.stages) {
      for (NodeId& node : stage.replicas) {
        for (size_t i = 0; i < nodes.size(); ++i) {
          if (node != TestNodeId(static_cast<uint32_t>(i) + 1)) continue;
          node = TestNodeId(names[i]);
          break;
        }
      }
    }
    CHECK(renamed.plan == expected);
  }
}

TEST_CASE("Laws: where all takes twice as long, or a quarter, so does the step, to the last bit",
          "[plan][laws]") {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    PlannerInput input = InputOf(DrawNodes(7, seed));
    const PlannedRun plain = Planned(input);
    for (const double factor : {2.0, 0.25}) {
      PlannerInput scaled = input;
      scaled.message_s *= factor;
      for (auto& [node, device] : scaled.devices) device.gflops /= factor;
      for (int32_t i = 0; i < scaled.links.size(); ++i) {
        for (int32_t j = 0; j < scaled.links.size(); ++j) {
          if (i == j) continue;
          scaled.links.At(i, j).rtt_s *= factor;
          scaled.links.At(i, j).bytes_per_s /= factor;
        }
      }
      const PlannedRun run = Planned(scaled);
      CAPTURE(seed, factor);
      CHECK(run.predicted_step_s == factor * plain.predicted_step_s);
      CHECK(run.lower_bound_s == factor * plain.lower_bound_s);
      // Slots too, but for the order among nodes, which goes by hashes of their figures.
      CHECK(TakingPartIn(run.plan) == TakingPartIn(plain.plan));
    }
  }
}

// Good and bad ones in turn: slow, far, behind a thin line.
std::vector<DrawnNode> Mixed(size_t count, uint64_t seed) {
  std::vector<DrawnNode> nodes = DrawNodes(count, seed);
  for (size_t i = 5; i < count; i += 2) {
    if (seed % 3 == 0) nodes[i].gflops = 4;
    if (seed % 3 == 1) nodes[i].x = 5;
    if (seed % 3 == 2) nodes[i].uplink_bytes_per_s = 5e5;
  }
  return nodes;
}

constexpr double kHurtMax = 1.01;

TEST_CASE("Laws: a node more does not make a step longer", "[plan][laws]") {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const std::vector<DrawnNode> nodes = Mixed(9, seed);
    double before = std::numeric_limits<double>::infinity();
    for (size_t count = 4; count <= nodes.size(); ++count) {
      PlannerInput input = InputOf({nodes.begin(), nodes.begin() + static_cast<long>(count)});
      input.config.nodes_min = 4;
      const PlannedRun run = Planned(input);
      CAPTURE(seed, count);
      CHECK(run.predicted_step_s <= kHurtMax * before);
      CHECK(TakingPartIn(run.plan).size() >= 4);
      before = std::min(before, run.predicted_step_s);
    }
  }
}

TEST_CASE("Laws: a plan spreads the visits of the dead where all who take part know how",
          "[plan][laws]") {
  PlannerInput input = InputOf(Mixed(6, 1));
  CHECK_FALSE(Planned(input).plan.settings.spreads);
  for (auto& [node, device] : input.devices) device.spreads = true;
  const PipelinePlan plan = Planned(input).plan;
  CHECK(plan.settings.spreads);
  input.devices.at(plan.stages.front().replicas.front()).spreads = false;
  CHECK_FALSE(Planned(input).plan.settings.spreads);
}

TEST_CASE("Laws: a plan says how long its steps and rounds should take", "[plan][laws]") {
  PlannerInput input = InputOf(Mixed(6, 1));
  for (auto& [node, device] : input.devices) device.gflops *= 1e-4;
  const PlannedRun run = Planned(input);
  CHECK(run.predicted_step_s > 1);
  CHECK(run.plan.settings.step_s == std::ceil(run.predicted_step_s));
  CHECK(run.outer.transfer_s > 0);
  CHECK(run.plan.settings.round_s == std::ceil(run.outer.transfer_s));
  for (auto& [node, device] : input.devices) device.gflops *= 1e-6;
  CHECK(Planned(input).plan.settings.step_s == std::numeric_limits<uint16_t>::max());
}

TEST_CASE("Laws: who lacks memory is told how much, if one layer lacks any", "[plan][laws]") {
  PlannerInput input = InputOf(Mixed(6, 1));
  input.config.pipeline.stages = 1;
  input.config.model.layers = 64;
  int32_t too_little = 0, enough_for_one = 0;
  for (int64_t bytes = 1 << 20; bytes < int64_t{1} << 40; bytes += bytes / 4) {
    for (auto& [node, device] : input.devices) device.memory_bytes = bytes;
    const absl::Status status = MakePlan(input).status();
    if (status.ok()) break;
    too_little += status.message().find("iB too little; ") != std::string::npos;
    enough_for_one +=
        status.message().find(", which is enough for that alone; ") != std::string::npos;
    CHECK(status.message().find("0.0 KiB too little") == std::string::npos);
  }
  CHECK(too_little > 0);
  CHECK(enough_for_one > 0);
}

TEST_CASE("Laws: nodes_min nodes take part, whatever they are", "[plan][laws]") {
  PlannerInput input = InputOf(Mixed(9, 2));
  input.config.nodes_min = 9;
  CHECK(TakingPartIn(Planned(input).plan).size() == 9);
  input.config.nodes_min = 6;
  const PlannedRun run = Planned(input);
  CHECK(TakingPartIn(run.plan).size() >= 6);
  CHECK(TakingPartIn(run.plan).size() < 9);
  CHECK(run.explanation.find("stand by") != std::string::npos);
}

TEST_CASE("Laws: the noise of measurements changes no choice of who takes part", "[plan][laws]") {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    PlannerInput input = InputOf(Mixed(8, seed));
    input.config.nodes_min = 4;
    const std::set<NodeId> chosen = TakingPartIn(Planned(input).plan);
    Rng rng(seed, "noise");
    for (auto& [node, device] : input.devices) device.gflops *= 1 + 0.04 * (rng.Uniform() - 0.5);
    for (int32_t i = 0; i < input.links.size(); ++i) {
      for (int32_t j = 0; j < input.links.size(); ++j) {
        if (i == j) continue;
        input.links.At(i, j).rtt_s *= 1 + 0.04 * (rng.Uniform() - 0.5);
        input.links.At(i, j).bytes_per_s *= 1 + 0.04 * (rng.Uniform() - 0.5);
      }
    }
    CHECK(TakingPartIn(Planned(input).plan) == chosen);
  }
}

TEST_CASE("Laws: more memory never hurts", "[plan][laws]") {
  const bool have_hosts = GENERATE(false, true);  // some of them, some hardly
  int compared = 0;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    PlannerInput input = InputOf(DrawNodes(8, seed));
    input.config.model = {
        .vocab = 8192, .hidden = 512, .layers = 12, .heads = 8, .kv_heads = 4, .ffn = 1536};
    Rng rng(seed, "memory");
    for (auto& [node, device] : input.devices) {
      device.memory_bytes = static_cast<int64_t>((0.9 + 0.8 * rng.Uniform()) * 1e9);
      if (!have_hosts || rng.Below(3) == 0) continue;
      device.memory_bytes /= 2;
      device.host_bytes = static_cast<int64_t>((0.3 + 0.8 * rng.Uniform()) * 1e9);
    }
    const auto tight = MakePlan(input);
    for (auto& [node, device] : input.devices) {
      device.memory_bytes *= 2;
      device.host_bytes *= 2;
    }
    const PlannedRun ample = Planned(input);
    CAPTURE(seed, ErrorText(tight.status()));
    if (!tight.ok()) continue;
    ++compared;
    CHECK(ample.predicted_step_s <= 1.01 * tight->predicted_step_s);
  }
  CHECK(compared > 0);
}

// Messages go from every node of a path to the next, back home from the last, and the same ways in
// the other direction.
std::set<std::pair<NodeId, NodeId>> LinksOf(const PipelinePlan& plan) {
  std::set<std::pair<NodeId, NodeId>> links;
  for (const Path& path : plan.paths) {
    for (size_t hop = 0; hop < path.size(); ++hop) {
      const NodeId& a = NodeOf(plan, path[hop]);
      const NodeId& b = NodeOf(plan, path[(hop + 1) % path.size()]);
      if (a == b) continue;
      links.insert({a, b});
      links.insert({b, a});
    }
  }
  return links;
}

TEST_CASE("Laws: no path of a plan crosses a link that does not work", "[plan][laws]") {
  int plans = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    PlannerInput input = InputOf(DrawNodes(8, seed));
    input.config.pipeline.stages = 2;
    Rng rng(seed, "cuts");
    std::set<std::pair<NodeId, NodeId>> cut;
    for (int count = 0; count < 5; ++count) {
      const auto i = static_cast<int32_t>(rng.Below(8));
      const auto j = static_cast<int32_t>((static_cast<uint64_t>(i) + 1 + rng.Below(7)) % 8);
      input.links.At(i, j) = {};
      cut.insert({input.nodes[static_cast<size_t>(i)], input.nodes[static_cast<size_t>(j)]});
    }
    const auto run = MakePlan(input);
    if (!run.ok()) {
      CHECK(ErrorText(run.status()).find("links do not work") != std::string::npos);
      continue;
    }
    ++plans;
    for (const auto& link : LinksOf(run->plan)) {
      CAPTURE(seed, link.first.Short(), link.second.Short());
      CHECK_FALSE(cut.contains(link));
    }
  }
  CHECK(plans >= 3);
}

TEST_CASE("Laws: who cannot be reached stands by, where others are enough", "[plan][laws]") {
  PlannerInput input = InputOf(DrawNodes(7, 3));
  for (int32_t other = 0; other < 6; ++other) {
    input.links.At(6, other) = {};
    input.links.At(other, 6) = {};
  }
  input.config.nodes_min = 7;
  const auto whole = MakePlan(input);
  REQUIRE_FALSE(whole.ok());
  CHECK(ErrorText(whole.status()).find("12 of 12 at " + input.nodes[6].Short()) !=
        std::string::npos);
  input.config.nodes_min = 6;
  CHECK_FALSE(TakingPartIn(Planned(input).plan).contains(input.nodes[6]));
}

TEST_CASE("Laws: figures that are none are refused with what they were", "[plan][laws][error]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  const PlannerInput sound = InputOf(DrawNodes(4, 1));
  const auto refusal = [](const PlannerInput& input) {
    const auto run = MakePlan(input);
    REQUIRE(absl::IsInvalidArgument(run.status()));
    return ErrorText(run.status());
  };
  for (const double bad : {nan, infinite, -1.0}) {
    PlannerInput rtt = sound;
    rtt.links.At(1, 2).rtt_s = bad;
    CHECK(refusal(rtt).find("Measure it again") != std::string::npos);
    PlannerInput rate = sound;
    rate.links.At(2, 1).bytes_per_s = bad;
    CHECK(refusal(rate).find(sound.nodes[2].Short() + " -> " + sound.nodes[1].Short()) !=
          std::string::npos);
    PlannerInput speed = sound;
    speed.devices[sound.nodes[3]].gflops = bad;
    CHECK(refusal(speed).find(sound.nodes[3].Short()) != std::string::npos);
  }
  PlannerInput memory = sound;
  memory.devices[sound.nodes[0]].memory_bytes = -5;
  CHECK(refusal(memory).find("-5 bytes") != std::string::npos);
  PlannerInput host = sound;
  host.devices[sound.nodes[0]].host_bytes = -6;
  CHECK(refusal(host).find("-6 on its host") != std::string::npos);
}

TEST_CASE("Laws: one node is a plan of one stage", "[plan][laws]") {
  PlannerInput input = InputOf(DrawNodes(1, 1));
  const PlannedRun run = Planned(input);
  CHECK(run.plan.stages.size() == 1);
  CHECK(run.plan.paths.front() == Path{{0, 0}});
}

}  // namespace
}  // namespace skerry
