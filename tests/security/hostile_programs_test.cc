// A run of the programs under siege by strangers with sockets: nobody dies, nobody swells, honest
// rounds go on. The long form, with figures: `./dev hostile`.

#include <catch2/catch.hpp>

#include "bench/siege/siege.h"

namespace skerry::siege {
namespace {

TEST_CASE("Hostile clients: programs under siege neither die nor swell, and rounds go on",
          "[security][hostile]") {
  Fleet fleet;
  const int64_t before_kb = fleet.Resident();
  const int64_t rounds = Rounds(fleet.run);

  const Siege siege;
  const int answered = Lay(fleet, siege);
  const auto said = fleet.proxy->Stop();  // "two" loses its connection, too, and dials in vain
  REQUIRE_FALSE(said.empty());
  CHECK(said.front().size() > 1000);
  Replay(PortOf(fleet.run.Endpoint()), said);

  CHECK(fleet.AllLive());
  CHECK(answered == siege.strangers);
  CHECK(Rounds(fleet.run) > rounds);
  constexpr int64_t kGrowthMaxKb = 64 << 10;
  CHECK(fleet.Resident() - before_kb <= kGrowthMaxKb);
  const auto status =
      nlohmann::json::parse(TextOf(fleet.run.at / "run" / "status.json"), nullptr, false);
  REQUIRE(status.is_object());
  CHECK(status["nodes"].size() == 2);
}

}  // namespace
}  // namespace skerry::siege
