// Who is let in: tickets, the operator's lists and orders, those who wait (docs/PROTOCOL.md, 1;
// decision 40).
//
// A stranger is answered without being connected: until it is admitted the host hears nothing of it
// but Hello, and keeps nothing for it but that answer.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/status.h"
#include "coordinator/border.h"
#include "coordinator/coordinator_actor.h"

namespace skerry {
namespace {

// Between the last word to a node that is put out and the end of its connection.
constexpr Duration kLastWords = Duration::Seconds(10);
constexpr size_t kReasonsMax = 32;  // told apart

std::string Because(const std::string& why) {
  return why.empty() ? "" : ": " + why;
}

}  // namespace

struct CoordinatorActor::Verdict {
  std::string refusal;  // why not, or not yet; empty: it is admitted
  bool waits = false;
  std::string ticket = {};  // id
};

CoordinatorActor::Verdict CoordinatorActor::Judge(const NodeId& from, const Hello& hello) const {
  const Admission& lists = state_.admission;
  if (std::string why = lists.WhyOut(from); !why.empty()) return {std::move(why)};
  const auto ticket = options_.verify_ticket(hello.ticket);
  if (!ticket.ok()) return {ErrorText(ticket.status())};
  if (const auto revoked = lists.revoked.find(ticket->id); revoked != lists.revoked.end()) {
    return {"the operator revoked this ticket" + Because(revoked->second) +
            "; ask them for a new one [SK-ticket-revoked]"};
  }
  const auto used = state_.ticket_uses.find(ticket->id);
  if (used != state_.ticket_uses.end() && used->second >= ticket->uses) {
    return {absl::StrFormat(
        "the ticket's %d uses are spent; ask the operator for another [SK-ticket-spent]",
        ticket->uses)};
  }
  if (state_.finished) return {"the run is finished [SK-run-over]"};
  if (state_.nodes.size() >= kNodesMax) {
    return {absl::StrFormat("the run has its %d nodes [SK-run-full]", kNodesMax)};
  }
  if (lists.allowed.contains(from)) return {"", false, ticket->id};
  if (lists.policy == AdmissionPolicy::kListed) {
    return {"this run takes only nodes that its operator listed; send them this node's name: " +
            from.Hex() + " [SK-node-unlisted]"};
  }
  if (lists.policy == AdmissionPolicy::kOpen && !ticket->asks) return {"", false, ticket->id};
  if (!lists.asked.contains(from) && lists.asked.size() >= Admission::kAskedMax) {
    return {absl::StrFormat("%d nodes wait for the operator's approval already; try again later",
                            lists.asked.size())};
  }
  return {"waiting for the operator's approval; this node's name is " + from.Hex(), true,
          ticket->id};
}

void CoordinatorActor::Refuse(Context& context, const NodeId& node, const std::string& why,
                              bool waits) {
  if (!waits) {
    ++refused_;
    const bool is_known = refusals_.contains(why) || refusals_.size() < kReasonsMax;
    ++refusals_[is_known ? why : "other reasons"];
  }
  context.Send(node, Refused{why, waits});
}

// Journalled once: who asked is known after a restart, and waits for the answer then, too.
void CoordinatorActor::Ask(Context& context, const NodeId& from, const Hello& hello,
                           const std::string& ticket) {
  const Asker asker{ticket, hello.region, hello.device.name};
  const auto known = state_.admission.asked.find(from);
  if (known == state_.admission.asked.end()) {
    Record(context, AskedRecord(from, asker));
    context.Event("asked", EventFields({{"node", from.Short()},
                                        {"name", from.Hex()},
                                        {"region", asker.region},
                                        {"device", asker.device}}));
  }
  asking_[from] = hello;
}

void CoordinatorActor::Admit(Context& context, const NodeId& from, const Hello& hello) {
  const Verdict verdict = Judge(from, hello);
  if (verdict.waits) Ask(context, from, hello, verdict.ticket);
  if (!verdict.refusal.empty()) return Refuse(context, from, verdict.refusal, verdict.waits);
  asking_.erase(from);
  NodeRecord record{"", hello.region, verdict.ticket, hello.device, true, hello.relays, "", {}};
  record.software = hello.software;
  record.process = hello.process;
  TakeAddress(record, hello);
  Record(context, AdmittedRecord(from, record));
  heard_[from] = context.now();
  context.Event("admitted", EventFields({{"node", from.Short()},
                                         {"region", record.region},
                                         {"device", record.device.name},
                                         {"gflops", record.device.gflops},
                                         {"bf16_gflops", record.device.bf16_gflops}}));
  Greet(context, from, hello, true);
}

void CoordinatorActor::Obey(Context& context, const AdmissionOrder& order) {
  if (stopping_ || state_.admission.obeyed.contains(order.id)) return;
  using Does = AdmissionOrder::Does;
  Record(context, OrderRecord(order));
  const std::string came_of_it = order.IsOfRun() ? ObeyOfRun(context, order) : "";
  if (order.does != Does::kIssue) {
    nlohmann::json said = nlohmann::json::parse(OrderText(order));
    if (!came_of_it.empty()) said["came_of_it"] = came_of_it;
    if (!order.node.IsZero()) said["node"] = order.node.Short();
    context.Event("order", EventFields(said));
  }
  if (order.does == Does::kDeny) PutOut(context, order.node, order.why);
  if (stopping_ || order.IsOfRun()) return;
  // Who waits is judged again, as if it had asked now.
  const auto asking = std::exchange(asking_, {});
  for (const auto& [node, hello] : asking) {
    const bool concerned = order.node.IsZero() || order.node == node;
    if (!concerned || order.does == Does::kIssue) {
      asking_.emplace(node, hello);
    } else if (!state_.nodes.contains(node)) {
      Admit(context, node, hello);
    }
  }
}

// Of the operator's own will. A stranger that waits hears it from Admit.
void CoordinatorActor::PutOut(Context& context, const NodeId& node, const std::string& why) {
  const auto known = state_.nodes.find(node);
  if (known == state_.nodes.end()) return;
  const std::string told = "the operator put this node out" + Because(why);
  const bool was_here = known->second.alive;
  if (was_here) DeclareGone(context, node, Gone::kEvicted, told);
  if (stopping_ || !was_here) return;
  TellOfDeath(context, node);
}

void CoordinatorActor::Dismiss(Context& context, const NodeId& node) {
  dismissed_.emplace(node, context.now());
}

void CoordinatorActor::HangUpOnDismissed(Context& context) {
  std::erase_if(dismissed_, [&](const auto& entry) {
    if (context.now() - entry.second < kLastWords) return false;
    context.DisconnectPeer(entry.first);
    told_of_death_.erase(entry.first);
    return true;
  });
}

nlohmann::json CoordinatorActor::RefusalsJson() const {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [why, times] : refusals_) json[why] = times;
  return json;
}

}  // namespace skerry
