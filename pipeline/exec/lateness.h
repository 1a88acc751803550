// What "late" means at one node: later than anything was before, by far.
//
// A node remembers how long the answers to what it sent on took: the longest of its present and of
// its last stretch of steps (a stretch holds at least one whole round, so that what happens once a
// round is no surprise). They count for 5/4 of the longest of the stretch before at
// most, and where there is none for kSpread times the shortest: who becomes slower and slower, or
// was slow from the beginning where others are not, does not become the measure of what is late. A
// wait is late beyond
//
//   patience = max(floor, kFactor · longest) · 2^given_up
//
// where `given_up` counts the attempts of the microbatch that were given up already: who was wrong
// about the culprit waits longer the next time. While nothing has been answered yet, patience is
// kFactor times what the plan expects, if it does, and kUnknown · floor at least.
//
// Time in which this process did not run is no waiting: Tick says that it does.
//
// A value type; not thread-safe.
#pragma once

#include <cstdint>

#include "common/instant.h"

namespace skerry {

class Lateness {
 public:
  static constexpr int64_t kFactor = 4;
  static constexpr int64_t kGrowthNumerator = 5, kGrowthDenominator = 4;
  static constexpr int64_t kSpread = 4;
  static constexpr int64_t kUnknown = 12;
  static constexpr int32_t kDoublingsMax = 6;

  struct Options {
    Duration floor;          // > 0; never late before
    Duration tick;           // > 0; how often Tick is called
    int64_t stretch_steps;   // ≥ 1
    Duration expected = {};  // by the plan; 0: unknown
  };
  explicit Lateness(const Options& options) : options_(options) {}

  void Tick(Instant now);
  // The host's time less what this process has lost.
  Instant Clock(Instant now) const { return now - lost_; }

  // An answer of step `step` took so long, on that clock.
  void Note(int64_t step, Duration took);

  // Of the stage-0 node of a microbatch: what is later than this is led around.
  Duration Patience(int32_t given_up = 0) const;
  // Of the others: half of it, so that the stage-0 node has heard of them when it comes to that.
  Duration ReportAfter() const;

 private:
  Duration Usual() const;
  Duration Counted() const;  // the longest of the present stretch, as far as it counts

  Options options_;
  Instant ticked_;
  bool ticks_ = false;
  Duration lost_;
  bool has_answers_ = false;
  int64_t stretch_ = 0;
  Duration shortest_, longest_;  // of the present stretch
  Duration longest_before_;      // of the one before, as far as it counted
};

}  // namespace skerry
