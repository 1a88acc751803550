#include "sim/packet/home_router.h"

#include <cstdint>

#include "common/status.h"
#include "sim/child_process.h"
#include "sim/packet/netlink.h"
#include "sim/packet/packet_settings.h"

namespace skerry {
namespace {

constexpr uint32_t kRouterInside = 0xc0a84d01, kHomeHost = 0xc0a84d02;  // 192.168.77.1 and .2
constexpr int kHomePrefix = 24;
constexpr char kInside[] = "lan0", kHomeLink[] = "wan0";
constexpr char kNft[] = "/usr/sbin/nft";

// Full-cone or not does not matter: nothing is let in that no connection from inside has asked for.
std::string Rules(const std::string& outside) {
  return "table ip home {\n"
         "chain post {\ntype nat hook postrouting priority 100;\noifname \"" +
         outside +
         "\" masquerade\n}\n"
         "chain in {\ntype filter hook input priority 0; policy drop;\n"
         "ct state established,related accept\n}\n"
         "chain pass {\ntype filter hook forward priority 0; policy drop;\n"
         "iifname \"lan0\" accept\nct state established,related accept\n}\n}\n";
}

absl::Status SetUpRouter(int home) {
  SKERRY_RETURN_IF_ERROR(CreateVethPair(kInside, kHomeLink, home));
  SKERRY_RETURN_IF_ERROR(BringUp(kInside, {}));
  SKERRY_RETURN_IF_ERROR(AddAddress(kInside, kRouterInside, kHomePrefix));
  return SetNetwork("ip_forward", "1");
}

absl::Status SetUpHome(const std::string& congestion_control) {
  SKERRY_RETURN_IF_ERROR(BringUp("lo", {}));
  SKERRY_RETURN_IF_ERROR(BringUp(kHomeLink, {}));
  SKERRY_RETURN_IF_ERROR(AddAddress(kHomeLink, kHomeHost, kHomePrefix));
  return RouteAllThrough(kHomeLink, kRouterInside, congestion_control);
}

}  // namespace

absl::StatusOr<NetNamespace> MakeHome(const NetNamespace& router, const std::string& outside,
                                      const std::string& congestion_control) {
  SKERRY_ASSIGN_OR_RETURN(NetNamespace home, NetNamespace::Create());
  const int home_fd = home.fd();
  absl::Status made = router.Run([&] { return SetUpRouter(home_fd); });
  if (made.ok()) made = home.Run([&] { return SetUpHome(congestion_control); });
  SKERRY_RETURN_IF_ERROR(made);
  SKERRY_ASSIGN_OR_RETURN(ChildProcess nft,
                          ChildProcess::Start({kNft, Rules(outside)}, "", router.fd()));
  if (const std::string how = nft.Wait(); how != "exit code 0") {
    return FailedPrecondition(
        "a router is made with nft, which failed (%s); Debian has it in the package nftables", how);
  }
  return home;
}

}  // namespace skerry
