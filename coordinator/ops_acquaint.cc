// Who is told of whom: all of all while they are few, else those who need each other.
#include <algorithm>
#include <iterator>
#include <utility>

#include "coordinator/coordinator_actor.h"

namespace skerry {
namespace {

// Newcomers that arrive together are told of together.
constexpr Duration kPeersDelay = Duration::Millis(100);
constexpr size_t kPeersAtOnce = 1000;
constexpr size_t kRelaysMax = 16;  // that everybody is told of, where not all are told of all

}  // namespace

Peer CoordinatorActor::PeerOf(const NodeId& node) const {
  const NodeRecord& record = state_.nodes.at(node);
  // Both ends of a pair must choose among the same relays.
  const bool relays = record.relays && (!is_partial_ || relays_.contains(node));
  return {node, record.endpoint, record.region, relays};
}

const std::vector<NodeId>& CoordinatorActor::PartnersInPlan(const NodeId& node) {
  static const std::vector<NodeId> kNobody;
  if (!state_.plan || !TakesPart(node)) return kNobody;
  if (plan_partners_.version != state_.plan->version)
    plan_partners_ = {state_.plan->version, PlanPartners(*state_.plan)};
  const auto it = plan_partners_.of.find(node);
  return it == plan_partners_.of.end() ? kNobody : it->second;
}

// A process that has just been let in, or did not hear who came and went.
void CoordinatorActor::SendPeers(Context& context, const NodeId& to) {
  if (active_.size() > options_.introduces_all_max && !std::exchange(is_partial_, true) &&
      peers_timer_ == 0) {
    peers_timer_ = context.StartTimer(kPeersDelay);
  }
  std::set<NodeId> met;
  if (is_partial_) {
    const auto meet = [&](const NodeId& other) {
      if (active_.contains(other) && acquaintances_.Meet(to, other)) TellLater(context, other, to);
    };
    for (const NodeId& other : PartnersInPlan(to)) meet(other);
    for (const NodeId& relay : relays_) meet(relay);
    met = acquaintances_.Of(to);
    met.insert(to);
  } else {
    for (const NodeId& other : active_) acquaintances_.Meet(to, other);
  }
  std::vector<Peers> parts(1);
  for (const NodeId& id : is_partial_ ? met : active_) {
    if (!active_.contains(id)) continue;  // it has gone, which its acquaintances are yet to hear
    if (parts.back().peers.size() == kPeersAtOnce) parts.emplace_back();
    parts.back().peers.push_back(PeerOf(id));
  }
  auto left = static_cast<int32_t>(parts.size());
  for (Peers& part : parts) {
    part.complete = true;
    part.partial = is_partial_;
    part.parts_left = --left;
    context.Send(to, std::move(part));
  }
}

void CoordinatorActor::TellLater(Context& context, const NodeId& to, const NodeId& of) {
  news_[to].insert(of);
  if (peers_timer_ == 0) peers_timer_ = context.StartTimer(kPeersDelay);
}

void CoordinatorActor::PeersChanged(Context& context, const NodeId& node) {
  untold_.insert(node);
  if (!is_partial_ && active_.contains(node)) {
    for (const NodeId& other : active_) acquaintances_.Meet(node, other);
  }
  if (peers_timer_ == 0) peers_timer_ = context.StartTimer(kPeersDelay);
}

// Who was greeted since they changed knows it already, and hears it again.
void CoordinatorActor::SendChangedPeers(Context& context) {
  peers_timer_ = 0;
  is_partial_ ? TellAcquaintances(context) : TellEverybody(context);
  RequestProbes(context);
  PlanWhenReady(context);
}

void CoordinatorActor::TellEverybody(Context& context) {
  Peers changed;
  for (const NodeId& node : std::exchange(untold_, {})) {
    if (active_.contains(node)) {
      changed.peers.push_back(PeerOf(node));
    } else {
      changed.gone.push_back(node);
      acquaintances_.Forget(node);
    }
  }
  news_.clear();
  const SharedMessage update = Share(std::move(changed));
  for (const NodeId& node : active_) {
    if (greeted_.contains(node)) context.Send(node, update);
  }
}

// Relays that can be dialled, few enough that everybody can know them. Who is one stays one.
void CoordinatorActor::ChooseRelays() {
  std::erase_if(relays_, [&](const NodeId& node) {
    const auto it = state_.nodes.find(node);
    return !active_.contains(node) || !it->second.relays || it->second.endpoint.empty();
  });
  for (const NodeId& node : active_) {
    if (relays_.size() >= kRelaysMax) return;
    const NodeRecord& record = state_.nodes.at(node);
    if (!record.relays || record.endpoint.empty() || !relays_.insert(node).second) continue;
    untold_.insert(node);
    for (const NodeId& other : active_) acquaintances_.Meet(node, other);
  }
}

void CoordinatorActor::TellAcquaintances(Context& context) {
  ChooseRelays();
  auto news = std::exchange(news_, {});
  for (const NodeId& node : std::exchange(untold_, {})) {
    for (const NodeId& other : acquaintances_.Of(node)) news[other].insert(node);
    if (active_.contains(node)) news[node].insert(node);
  }
  // Those who were told of everybody have to know that this is over.
  if (!std::exchange(told_partial_, true)) {
    for (const NodeId& node : active_) news[node];
  }
  std::set<NodeId> gone;
  for (const auto& [to, of] : news) {
    Peers changed;
    changed.partial = true;
    for (const NodeId& node : of) {
      if (active_.contains(node)) {
        changed.peers.push_back(PeerOf(node));
      } else {
        changed.gone.push_back(node);
        gone.insert(node);
      }
    }
    if (active_.contains(to) && greeted_.contains(to)) context.Send(to, std::move(changed));
  }
  for (const NodeId& node : gone) acquaintances_.Forget(node);
}

// At once: what follows on the same ordered channels needs it.
void CoordinatorActor::Introduce(Context& context, const NodeId& node,
                                 const std::set<NodeId>& others) {
  if (!is_partial_) return;
  Peers told;
  for (const NodeId& other : others) {
    if (!active_.contains(other) || !acquaintances_.Meet(node, other)) continue;
    told.peers.push_back(PeerOf(other));
    if (greeted_.contains(other)) context.Send(other, Peers{false, 0, {PeerOf(node)}, {}, true});
  }
  if (told.peers.empty() || !greeted_.contains(node)) return;
  told.partial = true;
  context.Send(node, std::move(told));
}

// Those of a new plan, each told once.
void CoordinatorActor::IntroducePartners(Context& context) {
  if (!is_partial_) return;
  std::vector<std::pair<NodeId, NodeId>> introduced;
  for (const NodeId& node : active_) {
    // After a death nearly all have met: they are passed over without looking anybody up.
    const std::vector<NodeId>& partners = PartnersInPlan(node);
    const std::set<NodeId>& met = acquaintances_.Of(node);
    std::vector<NodeId> strangers;
    std::set_difference(partners.begin(), partners.end(), met.begin(), met.end(),
                        std::back_inserter(strangers));
    Peers told;
    told.partial = true;
    for (const NodeId& other : strangers) {
      if (!active_.contains(other)) continue;
      told.peers.push_back(PeerOf(other));
      introduced.emplace_back(node, other);
    }
    if (!told.peers.empty() && greeted_.contains(node)) context.Send(node, std::move(told));
  }
  for (const auto& [a, b] : introduced) acquaintances_.Meet(a, b);
}

// Somebody has something for nodes that it was not told of: each is here, or gone.
void CoordinatorActor::On(Context& context, const NodeId& from, const Acquaint& message) {
  if (!active_.contains(from)) return void(++refused_);
  Peers answer;
  answer.partial = is_partial_;
  for (const NodeId& node : std::set(message.nodes.begin(), message.nodes.end())) {
    if (node == from) continue;
    if (!active_.contains(node)) {
      answer.gone.push_back(node);
      continue;
    }
    answer.peers.push_back(PeerOf(node));
    if (acquaintances_.Meet(from, node) && greeted_.contains(node))
      context.Send(node, Peers{false, 0, {PeerOf(from)}, {}, is_partial_});
  }
  if (greeted_.contains(from)) context.Send(from, std::move(answer));
}

}  // namespace skerry
