#include "node/network_cards.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace skerry {
namespace {

namespace fs = std::filesystem;

class Sys {
 public:
  Sys() {
    std::string name = (fs::temp_directory_path() / "skerry-sys-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    at_ = name;
  }
  ~Sys() {
    std::error_code error;
    fs::remove_all(at_, error);
  }
  void Write(const std::string& file, const std::string& line) const {
    fs::create_directories((at_ / file).parent_path());
    std::ofstream(at_ / file) << line << "\n";
  }
  std::vector<NetworkCard> Cards() const { return NetworkCards(at_.string()); }

 private:
  fs::path at_;
};

}  // namespace

TEST_CASE("Network cards: InfiniBand, RoCE and Ethernet, fastest first, none twice", "[node]") {
  const Sys sys;
  sys.Write("class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand");
  sys.Write("class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)");
  sys.Write("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  sys.Write("class/infiniband/mlx5_1/ports/1/link_layer", "Ethernet");
  sys.Write("class/infiniband/mlx5_1/ports/1/rate", "25 Gb/sec (1X EDR)");
  sys.Write("class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE");
  sys.Write("class/infiniband/mlx5_1/device/net/ens1/operstate", "up");  // the port's interface
  sys.Write("class/net/ens1/device/vendor", "0x15b3");
  sys.Write("class/net/ens1/speed", "25000");
  sys.Write("class/net/eth0/device/vendor", "0x8086");
  sys.Write("class/net/eth0/speed", "2500");
  sys.Write("class/net/eth0/operstate", "up");
  sys.Write("class/net/eth1/device/vendor", "0x8086");
  sys.Write("class/net/eth1/speed", "-1");
  sys.Write("class/net/eth1/operstate", "down");
  sys.Write("class/net/lo/operstate", "unknown");
  sys.Write("class/net/docker0/speed", "10000");  // no hardware
  CHECK(sys.Cards() ==
        std::vector<NetworkCard>{{"mlx5_0 port 1", NetworkKind::kInfiniband, 200, true},
                                 {"mlx5_1 port 1", NetworkKind::kRoce, 25, true},
                                 {"eth0", NetworkKind::kEthernet, 2.5, true},
                                 {"eth1", NetworkKind::kEthernet, 0, false}});
}

TEST_CASE("Network cards: files that say nothing sensible are no card, or one without a speed",
          "[node][error]") {
  const Sys sys;
  CHECK(sys.Cards().empty());
  sys.Write("class/net/eth0/device/vendor", "");
  sys.Write("class/net/eth0/speed", "very fast");
  sys.Write("class/infiniband/mlx5_0/node_guid", "");  // no ports
  REQUIRE(sys.Cards().size() == 1);
  CHECK(Describe(sys.Cards()[0]) == "Ethernet eth0, down");
  CHECK(Describe({"mlx5_0 port 1", NetworkKind::kInfiniband, 200, true}) ==
        "InfiniBand mlx5_0 port 1, 200 Gbit/s");
  CHECK(Describe({"ens1", NetworkKind::kRoce, 2.5, true}) == "RoCE ens1, 2.5 Gbit/s");
}

}  // namespace skerry
