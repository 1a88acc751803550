#include "coordinator/probe_schedule.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/rng.h"

namespace skerry {
namespace {

uint64_t PlaceOnRing(uint64_t ring, const NodeId& node) {
  uint64_t place = ring;
  for (size_t i = 0; i < node.bytes.size(); i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, node.bytes.data() + i, sizeof(word));
    place = Mix64(place ^ word);
  }
  return place;
}

}  // namespace

void ProbeSchedule::SetNodes(const std::set<NodeId>& nodes) {
  std::erase_if(running_, [&](const auto& probe) {
    return !nodes.contains(probe.first.first) || !nodes.contains(probe.first.second);
  });
  nodes_.clear();
  for (const NodeId& node : nodes) nodes_[node];
  if (nodes.size() <= kWholeFleet) {
    for (auto& [id, node] : nodes_) {
      node.partners = nodes;
      node.partners.erase(id);
    }
  } else {
    for (uint64_t ring = 0; ring < kRings; ++ring) AddRing(ring);
  }
  unsettled_ = 0;
  pairs_ = 0;
  for (auto& [id, node] : nodes_) {
    for (const NodeId& target : node.partners) {
      if (!IsSettled({id, target})) node.left.insert(target);
    }
    pairs_ += node.partners.size();
    unsettled_ += node.left.size();
  }
  for (const auto& [pair, since] : running_) {
    nodes_[pair.first].busy = true;
    nodes_[pair.second].busy = true;
  }
}

void ProbeSchedule::AddRing(uint64_t ring) {
  std::vector<std::pair<uint64_t, NodeId>> order;
  for (const auto& [id, node] : nodes_) order.emplace_back(PlaceOnRing(ring, id), id);
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); ++i) {
    const NodeId& a = order[i].second;
    const NodeId& b = order[(i + 1) % order.size()].second;
    nodes_[a].partners.insert(b);
    nodes_[b].partners.insert(a);
  }
}

void ProbeSchedule::NoteMeasured(const Pair& pair) {
  measured_.insert(pair);
  Settle(pair);
}

int32_t ProbeSchedule::Unanswered(const Pair& pair) const {
  const auto times = unanswered_.find(pair);
  return times == unanswered_.end() ? 0 : times->second;
}

bool ProbeSchedule::IsSettled(const Pair& pair) const {
  return measured_.contains(pair) || Unanswered(pair) >= kUnansweredMax;
}

void ProbeSchedule::Settle(const Pair& pair) {
  const auto node = nodes_.find(pair.first);
  if (node != nodes_.end()) unsettled_ -= node->second.left.erase(pair.second);
}

void ProbeSchedule::End(const Pair& pair) {
  running_.erase(pair);
  for (const NodeId& end : {pair.first, pair.second}) {
    if (const auto node = nodes_.find(end); node != nodes_.end()) node->second.busy = false;
  }
}

void ProbeSchedule::Ask(const Pair& pair, Instant now, std::vector<Pair>& out) {
  nodes_.at(pair.first).busy = true;
  nodes_.at(pair.second).busy = true;
  running_.emplace(pair, now);
  out.push_back(pair);
}

// From this node, to the idle target that was asked least often in vain.
void ProbeSchedule::Start(const NodeId& from, Instant now, std::vector<Pair>& out) {
  const Node& node = nodes_.at(from);
  if (node.busy || AtLimit()) return;
  const NodeId* best = nullptr;
  int32_t least = 0;
  for (const NodeId& target : node.left) {
    if (nodes_.at(target).busy) continue;
    const int32_t times = Unanswered({from, target});
    if (best != nullptr && times >= least) continue;
    best = &target;
    least = times;
  }
  if (best != nullptr) Ask({from, *best}, now, out);
}

// From this node, or from a partner to it.
void ProbeSchedule::StartWith(const NodeId& id, Instant now, std::vector<Pair>& out) {
  const auto node = nodes_.find(id);
  if (node == nodes_.end()) return;
  Start(id, now, out);
  for (const NodeId& partner : node->second.partners) {
    if (node->second.busy) return;
    const Node& from = nodes_.at(partner);
    if (from.busy || AtLimit() || !from.left.contains(id)) continue;
    Ask({partner, id}, now, out);
  }
}

std::vector<ProbeSchedule::Pair> ProbeSchedule::Next(Instant now) {
  std::vector<Pair> out;
  if (Complete()) return out;
  for (const auto& [id, node] : nodes_) Start(id, now, out);
  return out;
}

std::vector<ProbeSchedule::Pair> ProbeSchedule::Again(const std::vector<Pair>& pairs, Instant now) {
  std::vector<Pair> out;
  for (const Pair& pair : pairs) {
    const auto from = nodes_.find(pair.first), to = nodes_.find(pair.second);
    if (from == nodes_.end() || to == nodes_.end() || from == to) continue;
    if (from->second.busy || to->second.busy || AtLimit()) continue;
    Ask(pair, now, out);
  }
  return out;
}

bool ProbeSchedule::Answered(const Pair& pair, Instant now, std::vector<Pair>& next) {
  if (!running_.contains(pair)) return false;
  End(pair);
  unanswered_.erase(pair);
  NoteMeasured(pair);
  // A limit may have held back anybody.
  if (at_once_ > 0) {
    next = Next(now);
  } else {
    StartWith(pair.first, now, next);
    StartWith(pair.second, now, next);
  }
  return true;
}

std::vector<ProbeSchedule::Pair> ProbeSchedule::GiveUp(Instant now) {
  std::vector<Pair> late;
  for (const auto& [pair, since] : running_) {
    if (now - since > kPatience) late.push_back(pair);
  }
  std::vector<Pair> settled;
  for (const Pair& pair : late) {
    End(pair);
    if (++unanswered_[pair] != kUnansweredMax) continue;
    Settle(pair);
    settled.push_back(pair);
  }
  return settled;
}

void ProbeSchedule::AskAgain() {
  for (const auto& [pair, times] : std::exchange(unanswered_, {})) {
    const auto node = nodes_.find(pair.first);
    if (times < kUnansweredMax || node == nodes_.end()) continue;
    if (node->second.partners.contains(pair.second))
      unsettled_ += node->second.left.insert(pair.second).second;
  }
}

bool ProbeSchedule::MeasureAgain(const Pair& pair) {
  const auto node = nodes_.find(pair.first);
  // Who was its partner when it was measured may be none any more: nodes have come since.
  if (node == nodes_.end() || !nodes_.contains(pair.second)) return false;
  if (!measured_.contains(pair) || repeated_[pair] >= kRepeatsMax) return false;
  ++repeated_[pair];
  measured_.erase(pair);
  unsettled_ += node->second.left.insert(pair.second).second;
  return true;
}

void ProbeSchedule::Forget(const NodeId& node) {
  std::vector<Pair> ended;
  for (const auto& [pair, since] : running_) {
    if (pair.first == node || pair.second == node) ended.push_back(pair);
  }
  for (const Pair& pair : ended) End(pair);
}

}  // namespace skerry
