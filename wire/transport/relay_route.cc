#include "wire/transport/relay_route.h"

#include <algorithm>
#include <utility>

namespace skerry {

void RelayRoute::Begin(Instant now, const NodeId& relay) {
  if (relay_) ++moves_;
  relay_ = relay;
  state_ = State::kCalling;
  heard_ = calling_ = now;
}

// The first that is not avoided; the present one does not count as a choice.
bool RelayRoute::Choose(Instant now) {
  std::erase_if(avoided_, [&](const auto& one) { return now - one.second > kAvoidFor; });
  if (order_.empty()) return false;
  auto best = std::find_if(order_.begin(), order_.end(),
                           [&](const NodeId& relay) { return !avoided_.contains(relay); });
  if (best == order_.end()) {
    avoided_.clear();
    best = order_.begin();
  }
  if (relay_ == *best) {
    heard_ = calling_ = now;
    return false;
  }
  Begin(now, *best);
  return true;
}

void RelayRoute::SetOrder(Instant now, std::vector<NodeId> order) {
  order_ = std::move(order);
  if (!relay_ || std::find(order_.begin(), order_.end(), *relay_) != order_.end()) return;
  relay_.reset();
  const bool was_used = std::exchange(state_, State::kIdle) != State::kIdle;
  if (was_used && Choose(now)) ++moves_;
}

bool RelayRoute::Want(Instant now) {
  return state_ == State::kIdle && Choose(now);
}

bool RelayRoute::OnCall(Instant now, const NodeId& relay, bool yields) {
  if (std::find(order_.begin(), order_.end(), relay) == order_.end()) return false;
  if (relay_ == relay) return false;
  const bool unanswered = state_ == State::kCalling && now - calling_ > kYieldAfter;
  if (!yields && state_ != State::kIdle && !unanswered) return false;
  avoided_.erase(relay);
  Begin(now, relay);
  return true;
}

void RelayRoute::OnState(Instant now, const NodeId& relay, RelayState::Is is) {
  if (relay_ != relay) return;
  heard_ = now;
  if (is == RelayState::Is::kRefused) {
    // As good as silent: Tick moves on.
    heard_ = now - kRelaySilent - Duration::Nanos(1);
    state_ = State::kCalling;
    return;
  }
  const State next = is == RelayState::Is::kReady ? State::kReady : State::kCalling;
  if (next == State::kCalling && state_ == State::kReady) calling_ = now;
  state_ = next;
}

void RelayRoute::OnHeard(Instant now, const NodeId& relay) {
  if (relay_ == relay) heard_ = now;
}

bool RelayRoute::Avoid(Instant now) {
  avoided_[*relay_] = now;
  return Choose(now);
}

bool RelayRoute::OnStalled(Instant now) {
  return relay_ && Avoid(now);
}

bool RelayRoute::Tick(Instant now) {
  if (state_ == State::kIdle || !relay_) return false;
  const bool silent = now - heard_ > kRelaySilent;
  const bool alone = state_ == State::kCalling && now - calling_ > kPeerPatience;
  return (silent || alone) && Avoid(now);
}

}  // namespace skerry
