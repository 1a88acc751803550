// Who is here: joining, heartbeats, leaving, death, measured links, data.

#include <cmath>
#include <utility>

#include "common/status.h"
#include "coordinator/coordinator_actor.h"
#include "pipeline/plan/planner.h"
#include "pipeline/plan/route.h"

namespace skerry {

void CoordinatorActor::On(Context& context, const NodeId& from, const Hello& message) {
  const auto known = state_.nodes.find(from);
  if (known == state_.nodes.end()) {
    Admit(context, from, message);
    return;
  }
  // A process without memory of a plan that names it: what it held is lost, whoever it was before.
  if (TakesPart(from) && message.plan_version == 0) {
    DeclareDead(context, from, "its process restarted and lost its stage");
  }
  NodeRecord record = known->second;
  record.endpoint = message.endpoint;
  record.region = message.region;
  record.device = message.device;
  record.alive = !state_.plan || !IsDead(*state_.plan, from);
  if (record != known->second) Record(context, AdmittedRecord(from, record));
  Greet(context, from, message);
}

void CoordinatorActor::Admit(Context& context, const NodeId& from, const Hello& message) {
  const auto ticket = options_.verify_ticket(message.ticket);
  std::string refusal;
  if (!ticket.ok()) {
    refusal = ErrorText(ticket.status());
  } else if (const auto used = state_.ticket_uses.find(ticket->id);
             used != state_.ticket_uses.end() && used->second >= ticket->uses) {
    refusal = absl::StrFormat("the ticket's %d uses are spent; ask the operator for another",
                              ticket->uses);
  }
  if (!refusal.empty()) {
    ++refused_;
    context.ConnectPeer(from, "");
    context.Send(from, Refused{refusal});
    return;
  }
  const NodeRecord record{message.endpoint, message.region, ticket->id, message.device, true};
  Record(context, AdmittedRecord(from, record));
  heard_[from] = context.now();
  context.Event(
      "admitted",
      absl::StrFormat(R"("node":"%s","region":"%s","device":"%s","gflops":%.1f)", from.Short(),
                      record.region, record.device.name, record.device.gflops));
  Greet(context, from, message);
}

void CoordinatorActor::Greet(Context& context, const NodeId& node, const Hello& hello) {
  context.ConnectPeer(node, "");
  greeted_.insert(node);
  context.Send(node, Welcome{options_.run, options_.config, options_.shards});
  SendPeers(context);
  if (!state_.plan) return;
  context.Send(node, PlanUpdate{*state_.plan});
  if (const auto stage = StageOf(node)) {
    for (int64_t round = hello.base_version; round < state_.RoundsCommitted(*stage); ++round) {
      context.Send(node, state_.commits.at({*stage, round}));
    }
  }
}

void CoordinatorActor::SendPeers(Context& context) {
  Peers peers;
  for (const auto& [id, record] : state_.nodes) {
    if (record.alive) peers.peers.push_back({id, record.endpoint, record.region});
  }
  for (const Peer& peer : peers.peers) {
    if (greeted_.contains(peer.id)) context.Send(peer.id, peers);
  }
}

void CoordinatorActor::On(Context& context, const NodeId& from, const Heartbeat& message) {
  beats_[from] = message;
  if (message.phase == Phase::kFinished) FinishWhenDone(context);
}

void CoordinatorActor::On(Context& context, const NodeId& from, const Leave& message) {
  context.Event("left", absl::StrFormat(R"("node":"%s")", from.Short()));
  DeclareDead(context, from, "it left: " + message.reason);
}

void CoordinatorActor::DeclareDead(Context& context, const NodeId& node, const std::string& why) {
  if (!state_.nodes.at(node).alive || state_.finished) return;
  Record(context, LifeRecord(node, false));
  std::erase_if(probes_, [&](const Probe& p) { return p.from == node || p.target == node; });
  context.Event("dead", absl::StrFormat(R"("node":"%s","silent_s":%.1f)", node.Short(),
                                        (context.now() - heard_[node]).seconds()));
  if (state_.plan && SlotOf(*state_.plan, node)) {
    std::set<NodeId> dead(state_.plan->dead.begin(), state_.plan->dead.end());
    dead.insert(node);
    const auto repaired = RepairPlan(*state_.plan, dead, state_.plan->version + 1);
    if (!repaired.ok()) {
      context.Stop(1, "the run cannot go on: " + ErrorText(repaired.status()));
      return;
    }
    Record(context, PlanRecord(*repaired, state_.predicted_step_s, state_.lower_bound_s));
    AnnouncePlan(context, absl::StrFormat("%s is out: %s", node.Short(), why));
    for (size_t stage = 0; stage < state_.plan->stages.size(); ++stage) {
      TryCommit(context, static_cast<int32_t>(stage));
    }
  }
  SendPeers(context);
}

void CoordinatorActor::On(Context& context, const NodeId& from, const LinkReading& message) {
  const auto probe = std::find_if(probes_.begin(), probes_.end(), [&](const Probe& p) {
    return p.from == from && p.target == message.target;
  });
  if (probe == probes_.end() ||
      !links_.Add(from, message.target, message.rtt_s, message.bytes_per_s, context.now()).ok()) {
    return void(++refused_);
  }
  probes_.erase(probe);
  Record(context, LinkRecord(from, message));
  context.Event("link", absl::StrFormat(R"("from":"%s","to":"%s","rtt_ms":%.2f,"mbps":%.2f)",
                                        from.Short(), message.target.Short(), message.rtt_s * 1e3,
                                        message.bytes_per_s * 8e-6));
  RequestProbes(context);
  PlanWhenReady(context);
}

void CoordinatorActor::On(Context& context, const NodeId& from, const ObjectRequest& message) {
  if (options_.objects == nullptr || message.offset < 0 || message.length <= 0 ||
      message.length > kObjectChunkBytesMax) {
    return void(++refused_);
  }
  context.Send(from, options_.objects->Read(message));
}

}  // namespace skerry
