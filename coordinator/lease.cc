#include "coordinator/lease.h"

#include <algorithm>

namespace skerry {

void LeaseKeeper::OnGranted(int64_t epoch, Instant asked) {
  if (state_ != State::kStandby) return;
  state_ = State::kLeading;
  epoch_ = epoch;
  confirmed_ = asked;
  next_ = asked + terms_.renew_after;
}

void LeaseKeeper::OnRenewed(Instant asked) {
  if (state_ != State::kLeading) return;
  confirmed_ = std::max(confirmed_, asked);
  next_ = confirmed_ + terms_.renew_after;
}

void LeaseKeeper::OnUnanswered(Instant asked) {
  next_ = std::max(next_, asked + terms_.retry_after);
}

void LeaseKeeper::OnRefused() {
  if (state_ == State::kLeading) state_ = State::kDeposed;
}

bool LeaseKeeper::MayAct(Instant now) const {
  return now < ActsUntil();
}

Instant LeaseKeeper::ActsUntil() const {
  if (state_ != State::kLeading) return Instant();
  return confirmed_ + (terms_.lasts - terms_.clock_slack);
}

bool LeaseKeeper::IsDue(Instant now) const {
  return state_ != State::kDeposed && now >= next_;
}

}  // namespace skerry
