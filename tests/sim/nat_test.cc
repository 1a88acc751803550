// The real programs with nodes behind real routers: network namespaces that masquerade and let
// nothing in. Nothing here depends on how fast the machine is.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/child_process.h"
#include "sim/packet/packet_plan.h"
#include "sim/packet/packet_world.h"
#include "tests/sim/flow_player.h"

using namespace skerry;
using namespace skerry::testing;
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

constexpr char kRun[] = R"(
[run]
name = "behind routers"
seed = 1
steps = %d
nodes_min = %d
[model]
vocab = 256
hidden = 32
layers = 6
heads = 2
kv_heads = 1
ffn = 64
context = 32
[outer]
inner_steps = 2
overlap_steps = 1
[pipeline]
stages = %d
skip_ratio = 0.0
microbatches_per_step = 4
sequences_per_microbatch = 1
in_flight = 2
)";

// A way that leaves this process where it is, and nft; empty: why there is none.
std::optional<PacketWay> Way(std::string& obstacle) {
  if (!fs::exists("/usr/sbin/nft")) {
    obstacle = "there is no nft (Debian: nftables)";
    return std::nullopt;
  }
  for (const TriedWay& tried : ProbePacketPlatform().ways) {
    if (tried.obstacle.empty() && !tried.way.user_namespace) return tried.way;
    obstacle = tried.obstacle;
  }
  return std::nullopt;
}

std::string TextOf(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

struct Home {
  Home() {
    std::string name = (fs::temp_directory_path() / "skerry-nat-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    at = name;
    std::ofstream text(at / "text.txt");
    for (int i = 0; i < 20'000; ++i) text << "line " << i * 7919 % 1000 << " of it.\n";
  }
  ~Home() { fs::remove_all(at); }
  fs::path at;
};

struct Fleet {
  std::set<int32_t> behind_routers;
  int32_t relay = 0;  // node number; 0: none
  int32_t nodes = 2;
  int32_t steps = 4;
  bool punches = false;  // so long that the two are introduced meanwhile
};

void CheckListings(const Fleet& fleet, const std::string& bin, const std::string& run) {
  const auto listed = RunAndCapture({bin + "skerry-coordinator", "nodes", run, "--json"});
  const auto planned = RunAndCapture({bin + "skerry-coordinator", "plan", run, "--json"});
  REQUIRE((listed.ok() && planned.ok()));
  std::string relay_id = "coordinator";
  int hidden = 0;
  for (const Json& node : Json::parse(*listed)) {
    CHECK(node["takes_part"].get<bool>());
    CHECK(node["stage"].get<int>() >= 0);
    if (node["relays"].get<bool>()) relay_id = node["id"];
    if (node["reachable"] == "no") {
      ++hidden;
      CHECK(node["endpoint"] == "");
      CHECK(node["seen"].get<std::string>().starts_with("10.77.0."));
    }
  }
  CHECK(hidden == static_cast<int>(fleet.behind_routers.size()));
  const Json relayed = Json::parse(*planned)["relayed"];
  CHECK(relayed.size() == (hidden == 2 ? 1u : 0u));
  for (const Json& pair : relayed) CHECK(pair["relay"] == relay_id);
}

// Every node holds a stage and no stage is skipped: the run ends only if all of them computed.
void Train(const Fleet& fleet, const PacketWay& way) {
  const Home home;
  const std::string bin = fs::canonical("/proc/self/exe").parent_path().string() + "/";
  const std::string run = (home.at / "run").string(), endpoint = "tcp://10.77.0.1:7700";
  std::ofstream(home.at / "run.toml")
      << absl::StrFormat(kRun, fleet.steps, fleet.nodes, fleet.nodes);
  PacketWorldOptions options;
  options.behind_routers = fleet.behind_routers;
  auto world = PacketWorld::CreateThisWay(
      way, TwoSites(1000, Duration::Millis(4), CongestionControl::kBbr, 2), options);
  INFO(world.status());
  REQUIRE(world.ok());
  const auto init =
      RunAndCapture({bin + "skerry-coordinator", "init", run, "--config",
                     (home.at / "run.toml").string(), "--data", (home.at / "text.txt").string()});
  INFO(init.status());
  REQUIRE(init.ok());
  const auto log = [&](const std::string& name) { return (home.at / (name + ".log")).string(); };
  auto coordinator = ChildProcess::Start(
      {bin + "skerry-coordinator", "serve", run, "--bind", endpoint, "--dashboard", "none"},
      log("coordinator"), (*world)->node(0).fd());
  REQUIRE(coordinator.ok());
  auto ticket = RunAndCapture({bin + "skerry-coordinator", "ticket", run, "--endpoint", endpoint,
                               "--uses", std::to_string(fleet.nodes)});
  REQUIRE(ticket.ok());
  while (ticket->ends_with('\n')) ticket->pop_back();
  std::vector<ChildProcess> nodes;
  for (int32_t number = 1; number <= fleet.nodes; ++number) {
    const std::string name = "node" + std::to_string(number);
    // The bare command; where identities are kept keeps nodes of one machine apart.
    CommandLine join = {bin + "skerry-node", "join", *ticket, "--home", (home.at / name).string()};
    if (number == fleet.relay) join.emplace_back("--relay");
    auto node = ChildProcess::Start(join, log(name), (*world)->node(number).fd());
    REQUIRE(node.ok());
    nodes.push_back(*std::move(node));
  }
  CHECK(coordinator->Wait() == "exit code 0");
  INFO(TextOf(log("coordinator")));
  CheckListings(fleet, bin, run);
  for (int32_t number = 1; number <= fleet.nodes; ++number) {
    const std::string said = TextOf(log("node" + std::to_string(number)));
    INFO(said);
    const bool is_hidden = fleet.behind_routers.contains(number);
    CHECK((said.find("not reachable") != std::string::npos) == is_hidden);
    CHECK(said.find("finished") != std::string::npos);
    if (fleet.punches && is_hidden) CHECK(said.find("through both routers") != std::string::npos);
  }
  const Json status = Json::parse(TextOf(home.at / "run" / "status.json"));
  CHECK(status["step"] == fleet.steps);
  CHECK(status["tokens"] == fleet.steps * 4 * 32);
}

}  // namespace

TEST_CASE("NAT: nodes behind masquerading routers join with the bare command and train",
          "[sim][nat]") {
  std::string obstacle;
  const auto way = Way(obstacle);
  if (!way) {
    WARN("skipped: " << obstacle);
    return;
  }
  SECTION("one of two") {
    Train({{2}, 0, 2}, *way);
  }
  SECTION("both of two: the coordinator relays") {
    Train({{1, 2}, 0, 2}, *way);
  }
  SECTION("two of three: the third relays") {
    Train({{1, 2}, 3, 3}, *way);
  }
  SECTION("both of two: introduced by the coordinator, they come to talk directly") {
    Train({{1, 2}, 0, 2, 1000, true}, *way);
  }
}
