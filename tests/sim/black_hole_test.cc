// A way that swallows large packets and does not say so: connections stand, small messages pass.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/status.h"
#include "sim/child_process.h"
#include "sim/packet/net_namespace.h"
#include "sim/packet/netlink.h"
#include "sim/packet/packet_settings.h"

using namespace skerry;
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

constexpr char kRun[] = R"(
[run]
name = "behind a tunnel"
seed = 1
steps = 16
nodes_min = 1
[model]
vocab = 256
hidden = 32
layers = 1
heads = 2
kv_heads = 1
ffn = 64
context = 32
[pipeline]
stages = 1
skip_ratio = 0.0
)";
constexpr char kSilence[] =
    "table ip router {\nchain out {\ntype filter hook output priority 0;\n"
    "icmp type destination-unreachable drop\n}\n}\n";
constexpr char kEndpoint[] = "tcp://10.79.1.2:7700", kNft[] = "/usr/sbin/nft";
constexpr uint32_t kWest = 0x0a4f0100, kEast = 0x0a4f0200;  // 10.79.1.0, 10.79.2.0
constexpr int kPrefix = 24;

struct Place {
  NetNamespace coordinator, router, node;
};

absl::Status SetUpRouter(int coordinator, int node) {
  SKERRY_RETURN_IF_ERROR(CreateVethPair("west", "eth0", coordinator));
  SKERRY_RETURN_IF_ERROR(CreateVethPair("east", "eth0", node));
  SKERRY_RETURN_IF_ERROR(BringUp("west", {}));
  SKERRY_RETURN_IF_ERROR(BringUp("east", {}));
  SKERRY_RETURN_IF_ERROR(AddAddress("west", kWest + 1, kPrefix));
  SKERRY_RETURN_IF_ERROR(AddAddress("east", kEast + 1, kPrefix));
  return SetNetwork("ip_forward", "1");
}

absl::Status SetUpEnd(uint32_t net) {
  SKERRY_RETURN_IF_ERROR(BringUp("lo", {}));
  SKERRY_RETURN_IF_ERROR(BringUp("eth0", {}));
  SKERRY_RETURN_IF_ERROR(AddAddress("eth0", net + 2, kPrefix));
  return RouteAllThrough("eth0", net + 1, "cubic");
}

// PermissionDenied and the like where this machine allows no such thing.
absl::StatusOr<Place> Make() {
  if (!fs::exists(kNft)) return FailedPrecondition("there is no nft (Debian: nftables)");
  SKERRY_ASSIGN_OR_RETURN(NetNamespace coordinator, NetNamespace::Create());
  SKERRY_ASSIGN_OR_RETURN(NetNamespace router, NetNamespace::Create());
  SKERRY_ASSIGN_OR_RETURN(NetNamespace node, NetNamespace::Create());
  const int west = coordinator.fd(), east = node.fd();
  absl::Status made = router.Run([&] { return SetUpRouter(west, east); });
  if (made.ok()) made = coordinator.Run([] { return SetUpEnd(kWest); });
  if (made.ok()) made = node.Run([] { return SetUpEnd(kEast); });
  SKERRY_RETURN_IF_ERROR(made);
  SKERRY_ASSIGN_OR_RETURN(ChildProcess nft, ChildProcess::Start({kNft, kSilence}, "", router.fd()));
  if (nft.Wait() != "exit code 0") return FailedPrecondition("nft does not do what it says");
  return Place{std::move(coordinator), std::move(router), std::move(node)};
}

void SetMtu(const NetNamespace& where, const std::string& link, int mtu) {
  const absl::Status set = where.Run([&] { return BringUp(link, {mtu}); });
  INFO(set);
  REQUIRE(set.ok());
}

struct Home {
  Home() {
    std::string name = (fs::temp_directory_path() / "skerry-hole-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    at = name;
    std::ofstream text(at / "text.txt");
    for (int i = 0; i < 2'000; ++i) text << "line " << i * 7919 % 1000 << " of it.\n";
    std::ofstream(at / "run.toml") << kRun;
  }
  ~Home() { fs::remove_all(at); }
  fs::path at;
};

// A coordinator that serves, and a doctor elsewhere.
class Served {
 public:
  explicit Served(const Place& place) : place_(place) {
    const std::string run = (home_.at / "run").string();
    const auto init = RunAndCapture({bin_ + "skerry-coordinator", "init", run, "--config",
                                     (home_.at / "run.toml").string(), "--data",
                                     (home_.at / "text.txt").string()});
    INFO(init.status());
    REQUIRE(init.ok());
    auto serving = ChildProcess::Start(
        {bin_ + "skerry-coordinator", "serve", run, "--bind", kEndpoint, "--dashboard", "none"},
        (home_.at / "log").string(), place.coordinator.fd());
    REQUIRE(serving.ok());
    coordinator_ = *std::move(serving);
    auto ticket =
        RunAndCapture({bin_ + "skerry-coordinator", "ticket", run, "--endpoint", kEndpoint});
    REQUIRE(ticket.ok());
    ticket_ = ticket->substr(0, ticket->find_last_not_of('\n') + 1);
    while (Doctor("outbound")["health"] != "good") REQUIRE(coordinator_->Ended() == "");
  }

  // The finding of this name.
  Json Doctor(const std::string& check) const {
    const std::string out = (home_.at / "doctor.json").string();
    fs::remove(out);
    auto doctor = ChildProcess::Start({bin_ + "skerry-node", "doctor", "--ticket", ticket_,
                                       "--home", (home_.at / "node").string(), "--json"},
                                      out, place_.node.fd());
    REQUIRE(doctor.ok());
    doctor->Wait();
    std::ifstream file(out);
    const Json all = Json::parse(file);
    for (const Json& finding : all["checks"]) {
      if (finding["check"] == check) return finding;
    }
    return Json::object();
  }

 private:
  const Place& place_;
  const Home home_;
  const std::string bin_ = fs::canonical("/proc/self/exe").parent_path().string() + "/";
  std::optional<ChildProcess> coordinator_;
  std::string ticket_;
};

}  // namespace

TEST_CASE("Doctor: finds a way that swallows large packets, and how large they may be",
          "[sim][nat]") {
  const auto place = Make();
  if (!place.ok()) {
    WARN("skipped: " << place.status());
    return;
  }
  const Served served(*place);
  Json mtu = served.Doctor("MTU");
  CHECK(mtu["health"] == "good");

  // Its own interfaces take no larger ones, and what it would say of that is dropped.
  SetMtu(place->router, "west", 1400);
  SetMtu(place->router, "east", 1400);
  mtu = served.Doctor("MTU");
  INFO(mtu.dump());
  CHECK(mtu["health"] == "bad");
  CHECK(mtu["found"] ==
        "packets of 1400 bytes pass to the coordinator and back, those of 1412 do not");
  const std::string remedy = mtu["remedy"];
  CHECK(remedy.find("ip link set dev eth0 mtu 1400") != std::string::npos);

  SetMtu(place->node, "eth0", 1400);
  CHECK(served.Doctor("MTU")["health"] == "good");
}
