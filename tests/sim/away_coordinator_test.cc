// A coordinator that is away while nodes train, in whole runs on virtual time: what they did
// meanwhile counts.

#include <catch2/catch.hpp>

#include "tests/sim/checkpointed_fleet.h"

using namespace skerry;
using skerry::testing::AlikeNodes;
using skerry::testing::CheckSound;

// Without rounds nobody waits for a commit.
TEST_CASE("Of what stages of one replica train without a coordinator every step is credited",
          "[sim][restart]") {
  VirtualRunOptions options = AlikeNodes(2, 2, VirtualMath::kModelled);
  options.config.steps = 400;
  for (VirtualNode& node : options.nodes) node.device.gflops = 0.1;
  const double away_s = GENERATE(5.0, 20.0);
  VirtualRun run(options);
  size_t steps = 0, missed = 0;
  std::function<void(Simulation&)> watch = [&](Simulation& simulation) {
    const Instant now = simulation.now();
    steps = run.checkers().state().losses.size();
    if (steps < 50) return simulation.At(now + Duration::Millis(100), watch);
    simulation.CrashAt(now, VirtualRun::coordinator());
    simulation.StartAt(now + Duration::Seconds(away_s), VirtualRun::coordinator());
    simulation.At(now + Duration::Seconds(away_s + 3),
                  [&](Simulation&) { missed = run.checkers().state().losses.size() - steps; });
  };
  run.simulation().At(Instant() + Duration::Seconds(1), watch);
  CheckSound(run, run.Run());
  CHECK(missed > 20);
  CHECK(run.checkers().state().written_off.empty());
}
