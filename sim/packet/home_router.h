// A home behind a router: a network namespace whose only way out is another one that translates its
// address (nft masquerade) and lets in nothing that was not asked for from inside.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "sim/packet/net_namespace.h"

namespace skerry {

// The address that the machine in a home has, every home the same.
inline constexpr char kHomeAddress[] = "192.168.77.2";

// `router` has a link `outside` to the world. Connections from the home use `congestion_control`.
// FailedPrecondition if there is no nft (Debian: nftables) or the kernel does not do what it says.
absl::StatusOr<NetNamespace> MakeHome(const NetNamespace& router, const std::string& outside,
                                      const std::string& congestion_control);

}  // namespace skerry
