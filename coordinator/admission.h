// Who may join a run: the operator's lists and policy, tickets as issued, who asked, who was put
// out. Part of the run's state, so a fold of its journal: orders of the operator are records.
//
// How a newcomer is judged (ops_admission.cc): denied nodes and revoked, spent or expired tickets
// are refused; under `listed` so is everybody who is not allowed; under `approve`, or with a ticket
// that only asks, who is not allowed waits until the operator admits or denies it. What the
// operator says of a node counts more than the policy, and `admit` lifts a ban.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "common/ids.h"

namespace skerry {

enum class AdmissionPolicy : uint8_t { kOpen, kApprove, kListed };

// "open", "approve", "listed".
std::string PolicyName(AdmissionPolicy policy);
absl::StatusOr<AdmissionPolicy> PolicyOf(const std::string& name);

// Of admission or, in the same file, of the run. One line of DIR/orders.jsonl, which the operator's
// commands append and the coordinator obeys.
struct AdmissionOrder {
  enum class Does : uint8_t {
    kAdmit,
    kDeny,
    kForget,
    kRevoke,
    kPolicy,
    kIssue,
    kPause,  // these three are of the run itself (run_orders.h)
    kResume,
    kCheckpoint
  };
  bool IsOfRun() const { return does >= Does::kPause; }
  std::string id;  // random: an order is obeyed once, however often it is read
  Does does = Does::kAdmit;
  NodeId node;         // admit, deny, forget
  std::string ticket;  // id; revoke, issue
  std::string why;     // deny, revoke, pause
  AdmissionPolicy policy = AdmissionPolicy::kOpen;
  int64_t uses = 0;          // issue
  int64_t expires_unix = 0;  // issue; seconds
  bool asks = false;         // issue: its bearers wait for approval
  int64_t at_unix = 0;       // when the operator said it; seconds
};
inline constexpr size_t kOrderBytesMax = 2048;  // one line

std::string OrderText(const AdmissionOrder& order);  // JSON, one line
// InvalidArgument says what is wrong with it.
absl::StatusOr<AdmissionOrder> ParseOrder(const std::string& line);
std::string OrderRecord(const AdmissionOrder& order);

struct IssuedTicket {
  int64_t uses = 0;
  int64_t expires_unix = 0;
  bool asks = false;
  bool operator==(const IssuedTicket&) const = default;
};

struct Asker {
  std::string ticket;  // id
  std::string region, device;
  bool operator==(const Asker&) const = default;
};
std::string AskedRecord(const NodeId& node, const Asker& asker);

struct Admission {
  static constexpr size_t kAskedMax = 1000;  // waiting at a time

  AdmissionPolicy policy = AdmissionPolicy::kOpen;
  std::map<std::string, IssuedTicket> tickets;  // that `ticket` told of, by id
  std::map<std::string, std::string> revoked;   // ticket id → why
  std::set<NodeId> allowed;
  std::map<NodeId, std::string> denied;  // → why
  std::map<NodeId, std::string> banned;  // put out by the run itself → why
  std::set<NodeId> pardoned;             // once banned, and let in again by the operator
  std::map<NodeId, Asker> asked;         // and not answered
  std::set<std::string> obeyed;          // ids of orders
  bool operator==(const Admission&) const = default;

  // Throws nlohmann's errors, as RunState's other records do.
  void ApplyAsked(const nlohmann::json& record);
  absl::Status ApplyOrder(const nlohmann::json& order);
  // What a node that is denied or banned is told; "" if it is neither.
  std::string WhyOut(const NodeId& node) const;
  // Of those evicted, whom the operator has not let in again.
  std::set<NodeId> StillOut(std::set<NodeId> evicted) const;
};

}  // namespace skerry
