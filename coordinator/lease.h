// Who may lead: a coordinator's view of its lease, as a pure state machine. No sockets and no
// clock; whoever drives it says what time it is and what the database answered.
//
// The lease itself is one row in the database: an epoch, who holds it, until when. Only the
// database's clock decides when it ends, and every change of holder adds one to the epoch. Every
// append names its epoch and is refused by the database if the row names another: that is what
// keeps the journal whole, whatever clocks do (the fencing token of Gray and Cheriton's leases,
// 1989, as Burrows' Chubby calls it a sequencer, 2006).
//
// This machine adds that a leader falls silent in time. It counts from before it asked, so that its
// term ends here before it ends there, provided that its clock loses at most `clock_slack` of the
// time: then nobody else can lead while it still acts. With a worse clock it may speak for a while
// beside its successor; it still cannot write, and nodes that know the successor do not listen to
// it (wire/courier.h).
#pragma once

#include <cstdint>

#include "common/instant.h"

namespace skerry {

struct LeaseTerms {
  Duration lasts = Duration::Seconds(4);         // by the database's clock, from each renewal
  Duration renew_after = Duration::Seconds(1);   // without an append, which renews too
  Duration retry_after = Duration::Millis(500);  // of a standby, and of a renewal that failed
  Duration clock_slack = Duration::Millis(800);  // a leader stops so much before the end
};

class LeaseKeeper {
 public:
  // kStandby: somebody else leads, or nobody. kLeading: the lease was this process's when the
  // database last answered; it may act until its term ends here, and goes on if a later renewal
  // succeeds. kDeposed: the database named another epoch. There is no way back: what was decided
  // under the old epoch may contradict the new one, so the process ends.
  enum class State { kStandby, kLeading, kDeposed };

  explicit LeaseKeeper(const LeaseTerms& terms = {}) : terms_(terms) {}

  // The database made this process leader, or renewed its lease (an append does too); `asked`: when
  // the question left. An answer to an older question changes nothing.
  void OnGranted(int64_t epoch, Instant asked);
  void OnRenewed(Instant asked);
  // No answer came to what was asked at `asked`.
  void OnUnanswered(Instant asked);
  // The row names another epoch.
  void OnRefused();

  // Whether what follows from leading may be said at `now`.
  bool MayAct(Instant now) const;
  // Until when, if nothing else comes; before it led, the clock's zero.
  Instant ActsUntil() const;
  // Whether to ask the database: of a standby for the lease, of a leader for its renewal.
  bool IsDue(Instant now) const;

  State state() const { return state_; }
  int64_t epoch() const { return epoch_; }  // 0: it never led
  const LeaseTerms& terms() const { return terms_; }

 private:
  LeaseTerms terms_;
  State state_ = State::kStandby;
  int64_t epoch_ = 0;
  Instant confirmed_;  // when the last question that was answered well left
  Instant next_;       // when to ask again
};

}  // namespace skerry
