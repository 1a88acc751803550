// What a soak reads off the coordinator's events.jsonl while the run goes on: when it got on, and
// whether replicas agree.
//
// A *mark* is a completed inner step or a committed round. A gap is a time without one. Bytes of a
// half-written line wait for the rest.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/instant.h"

namespace skerry {

class SoakProgress {
 public:
  // What was appended to the file since the last call, as seen at `now`. A line that is no event is
  // a complaint.
  void Feed(Instant now, std::string_view appended);

  // The longest time without a mark that ends after `from` and begins before `to`, counted from
  // `from` on; the last one ends at `to` if no mark does.
  Duration LongestGap(Instant from, Instant to) const;
  // The first mark at or after `from`, or `otherwise`.
  Instant FirstMarkAfter(Instant from, Instant otherwise) const;

  bool has_begun() const { return !marks_.empty(); }
  bool finished() const { return finished_; }
  int64_t steps() const { return steps_; }
  int64_t rounds() const { return rounds_; }
  int64_t digests() const { return digests_; }  // compared
  // Differing digests, evictions, unreadable lines, a run given up: each a sentence.
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  void OnLine(Instant now, const std::string& line);

  std::string partial_;
  std::vector<Instant> marks_;
  std::map<std::pair<int64_t, int64_t>, std::string> digest_of_;  // (stage, round)
  bool finished_ = false;
  int64_t steps_ = 0;
  int64_t rounds_ = 0;
  int64_t digests_ = 0;
  std::vector<std::string> complaints_;
};

}  // namespace skerry
