// Random runs with random faults. A seed that was wrong once stays here for good.

#include "sim/swarm.h"

#include <catch2/catch.hpp>

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

TEST_CASE("Swarm: seeds 1000 to 1049 end well", "[sim][swarm]") {
  CheckSeeds(1000, 50);
}
TEST_CASE("Swarm: seeds 1050 to 1099 end well", "[sim][swarm]") {
  CheckSeeds(1050, 50);
}
TEST_CASE("Swarm: seeds 1100 to 1149 end well", "[sim][swarm]") {
  CheckSeeds(1100, 50);
}
TEST_CASE("Swarm: seeds 1150 to 1199 end well", "[sim][swarm]") {
  CheckSeeds(1150, 50);
}
