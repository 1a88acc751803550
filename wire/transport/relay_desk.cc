#include "wire/transport/relay_desk.h"

#include <algorithm>

namespace skerry {

using Is = RelayState::Is;

const RelayDesk::Wire* RelayDesk::OtherEnd(const Attached& attached) const {
  const auto it = ends_.find({attached.peer, attached.from, attached.stripe});
  return it == ends_.end() ? nullptr : &it->second;
}

bool RelayDesk::Attach(Instant now, const NodeId& from, const Wire& wire, const RelayAttach& attach,
                       std::vector<Notice>& out) {
  const bool known_pair = pairs_.contains(PairOf(from, attach.peer));
  const auto mine = wires_.find(wire);
  const bool is_other =
      mine != wires_.end() && (mine->second.from != from || mine->second.peer != attach.peer ||
                               mine->second.stripe != attach.stripe);
  if (from == attach.peer || is_other || (!known_pair && pairs_.size() >= budget_.pairs)) {
    ++refused_;
    out.push_back({wire, {attach.peer, attach.stripe, Is::kRefused}});
    return false;
  }
  if (mine == wires_.end()) {
    // The node dialled anew: its old connection is dead, whatever TCP knows of that.
    const End end{from, attach.peer, attach.stripe};
    if (const auto old = ends_.find(end); old != ends_.end()) {
      const Wire gone = old->second;
      std::vector<Notice> unsaid;
      Drop(gone, unsaid);
    }
    wires_[wire] = {from, attach.peer, attach.stripe, now, {}};
    ends_[end] = wire;
    ++pairs_[PairOf(from, attach.peer)].wires;
  }
  Attached& attached = wires_.at(wire);
  attached.said = now;
  const Wire* other = OtherEnd(attached);
  out.push_back({wire, {attach.peer, attach.stripe, other ? Is::kReady : Is::kWaiting}});
  if (other != nullptr && mine == wires_.end())
    out.push_back({*other, {from, attach.stripe, Is::kReady}});
  return other == nullptr;
}

std::optional<RelayDesk::Wire> RelayDesk::Forward(const NodeId& from, const Wire& wire,
                                                  const RelayData& data) {
  const auto mine = wires_.find(wire);
  const bool is_his = mine != wires_.end() && mine->second.from == from &&
                      mine->second.peer == data.peer && mine->second.stripe == data.stripe;
  const Wire* other = is_his ? OtherEnd(mine->second) : nullptr;
  const auto bytes = static_cast<int64_t>(data.sealed.size());
  // Control finds room where bulk has taken all.
  const int64_t pair_bytes =
      data.stripe == kControlWire ? budget_.pair_bytes * 5 / 4 : budget_.pair_bytes;
  if (other == nullptr || under_way_bytes_ + bytes > budget_.all_bytes ||
      pairs_.at(PairOf(from, data.peer)).under_way + bytes > pair_bytes) {
    ++refused_;
    return std::nullopt;
  }
  wires_.at(*other).sent += bytes;
  pairs_.at(PairOf(from, data.peer)).under_way += bytes;
  under_way_bytes_ += bytes;
  forwarded_bytes_ += bytes;
  return *other;
}

std::optional<RelayDesk::Wire> RelayDesk::Meet(Instant now, const NodeId& from, const Wire& wire,
                                               const NodeId& peer) {
  const auto mine = wires_.find(wire);
  if (mine == wires_.end() || mine->second.from != from || mine->second.peer != peer ||
      mine->second.stripe != kControlWire) {
    ++refused_;
    return std::nullopt;
  }
  std::optional<Instant>& met = mine->second.met;
  const Wire* other = OtherEnd(mine->second);
  if (other == nullptr || (met && now - *met < kMeetings)) return std::nullopt;
  met = now;
  return *other;
}

void RelayDesk::Free(Attached& attached, int64_t bytes) {
  attached.got += bytes;
  pairs_.at(PairOf(attached.from, attached.peer)).under_way -= bytes;
  under_way_bytes_ -= bytes;
}

void RelayDesk::TakeBack(const Wire& to, int64_t bytes) {
  const auto it = wires_.find(to);
  if (it == wires_.end()) return;
  it->second.sent -= bytes;
  pairs_.at(PairOf(it->second.from, it->second.peer)).under_way -= bytes;
  under_way_bytes_ -= bytes;
  forwarded_bytes_ -= bytes;
  ++refused_;
}

void RelayDesk::OnGot(const NodeId& from, const Wire& wire, int64_t bytes) {
  const auto it = wires_.find(wire);
  if (it == wires_.end() || it->second.from != from) return void(++refused_);
  const int64_t got = std::min(bytes, it->second.sent);
  if (got > it->second.got) Free(it->second, got - it->second.got);
}

void RelayDesk::Drop(const Wire& wire, std::vector<Notice>& out) {
  const auto it = wires_.find(wire);
  if (it == wires_.end()) return;
  Attached& gone = it->second;
  Free(gone, gone.sent - gone.got);
  if (const Wire* other = OtherEnd(gone))
    out.push_back({*other, {gone.from, gone.stripe, Is::kWaiting}});
  ends_.erase({gone.from, gone.peer, gone.stripe});
  const auto pair = pairs_.find(PairOf(gone.from, gone.peer));
  if (--pair->second.wires == 0) pairs_.erase(pair);
  wires_.erase(it);
}

void RelayDesk::Forget(const NodeId& node, std::vector<Notice>& out) {
  std::vector<Wire> gone;
  for (const auto& [wire, attached] : wires_) {
    if (attached.from == node || attached.peer == node) gone.push_back(wire);
  }
  for (const Wire& wire : gone) Drop(wire, out);
}

void RelayDesk::DropSilent(Instant now, std::vector<Notice>& out) {
  std::vector<Wire> gone;
  for (const auto& [wire, attached] : wires_) {
    if (now - attached.said > kWireSilent) gone.push_back(wire);
  }
  for (const Wire& wire : gone) Drop(wire, out);
}

}  // namespace skerry
