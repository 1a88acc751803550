// Whether a node can be dialled, and who forwards for a pair of which neither side can be
// (docs/decisions/0027-reachability.md).
#pragma once

#include <string>
#include <vector>

#include "common/ids.h"

namespace skerry {

// coordinator → node: what dialling it showed. (The coordinator's host tells its actor so as well.)
struct ReachTry {
  std::string endpoint;
  bool answered = false;  // with the nonce that was sent, proving the node's key
  bool operator==(const ReachTry&) const = default;
};
struct Reachability {
  NodeId node;
  std::string seen;             // the address that the node's connection comes from
  std::vector<ReachTry> tried;  // best first; ≤ kReachTriesMax
  bool operator==(const Reachability&) const = default;
};
// node → coordinator: I have something for these, of whom I was not told. Answered by Peers, in
// which each is here or gone; what is for them waits.
struct Acquaint {
  std::vector<NodeId> nodes;  // ≤ kAcquaintMax
  bool operator==(const Acquaint&) const = default;
};
inline constexpr size_t kAcquaintMax = 1024;

inline constexpr size_t kCoordinatorsMax = 8;  // addresses that Welcome names
inline constexpr size_t kReachTriesMax = 4;

// Where the node can be dialled; "" nowhere.
std::string ReachableAt(const Reachability& found);

// Where to dial a node back, in this order: where it says it listens (`listens`, first what it was
// told to advertise), and the address its connection comes from with the port it listens on. An
// address that cannot be meant is left out: any-address, and loopback or private ones of who is
// seen at a public one (another machine would be dialled). ≤ kReachTriesMax.
std::vector<std::string> DialBackAt(const std::vector<std::string>& listens,
                                    const std::string& seen);

// Where else a process listens that is bound to `endpoint`: the any-address with each of
// `addresses` in its place; nothing for another one. ≤ kListensMax − 1.
std::vector<std::string> ListensAt(const std::string& endpoint,
                                   const std::vector<std::string>& addresses);

// What was found, and what it means for a volunteer: some sentences, each a line.
std::vector<std::string> Explain(const Reachability& found);

// The relays of a pair, best first: each pair has an order of its own (rendezvous hashing), the
// same at both ends, so that relays share the load and the loss of one moves its own pairs only.
// `always` (the coordinator; zero: nobody) comes last. Neither end is among them.
std::vector<NodeId> RelayOrder(const NodeId& a, const NodeId& b, const std::vector<NodeId>& relays,
                               const NodeId& always);

}  // namespace skerry
