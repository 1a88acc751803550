// Which links of a matrix are not to be believed, and what to put in place of those and of the
// missing.
//
// The rules are told in link_estimator.h; they need at least three nodes, the test for round trips
// that are too short four. O(n² log n) for n nodes: third nodes are sampled beyond kThirdsMax.
#pragma once

#include <cstdint>

#include "routing/topology.h"

namespace skerry {

struct HygieneOptions {
  double suspect_log = 2.0;    // > 0
  double rtt_floor_s = 0.005;  // round trips below are never suspect
  int32_t believe_after = 3;   // so many readings that agree are believed, whatever they say
  double agree_spread =
      0.3466;  // they agree if the spread of their logs is at most this: ln(2) / 2
};

inline constexpr int32_t kThirdsMax = 32;

// Marks and replaces suspect links, then fills missing ones. A missing link that comes marked
// suspect (its probe went unanswered) stays missing, and so does every link of a node without any
// reading.
void CleanLinks(const HygieneOptions& options, LinkMatrix& links);

}  // namespace skerry
