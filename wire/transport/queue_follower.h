// How what is under way follows the queue that it makes: the law that the window of a pair
// (window.h) and the bound on all pairs of a sender (sender_line.h) have in common. It is the idea
// of Vegas (Brakmo & Peterson, 1995) and of FAST (Wei et al., 2006).
//
// Once a round: of what is under way, the part that stood in the queue beyond the target is taken
// away (six tenths of it, as readings scatter), or as much is added as would bring the queue there,
// with the longer steps the longer there has been no queue at all.
//
// Pure; not thread-safe.
#pragma once

#include <optional>

#include "common/instant.h"

namespace skerry {

// What the quickest of a round's probes met.
class Quickest {
 public:
  void Add(Duration value);
  Duration least() const { return least_; }
  // One of few probes may have crossed an empty line by chance, one of many does: of those the
  // second says what the queue is.
  Duration Usual(int probes) const { return probes < kMany ? least_ : second_; }
  bool is_empty() const { return count_ == 0; }

 private:
  static constexpr int kMany = 5;
  Duration least_, second_;
  int count_ = 0;
};

class QueueFollower {
 public:
  // A round is a round trip, but not less than this, and has so many probes: each may have met a
  // chunk.
  static constexpr Duration kRoundLeast = Duration::Millis(20);
  static constexpr int kProbesPerRound = 3;

  struct Round {
    Duration queue, target;
    Duration round_trip;  // of an empty line; not 0

    // Of what is under way this part stands in the queue beyond the target; below 0: that fits.
    double Excess() const { return (queue - target).seconds() / (round_trip + queue).seconds(); }
  };
  // By which part of itself what is under way should change: below 0 where the queue is beyond the
  // target, else above. nullopt: not in this round, as what was taken away before shows after it.
  std::optional<double> Change(const Round& round);
  // The next round says nothing yet of what has been changed.
  void Wait() { waits_ = true; }
  // The step that so many rounds without a queue are worth, before it is bounded.
  double Eagerness() const;
  int empty_rounds() const { return empty_rounds_; }

 private:
  int empty_rounds_ = 0;  // without queue, one after another
  bool waits_ = false;
};

}  // namespace skerry
