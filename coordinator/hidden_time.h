// How much of the rounds' transfer time no device stood idle for, kept up to date report by report:
// a status that is written twice a second cannot look at every round there was.
#pragma once

#include <cstdint>
#include <map>

#include "wire/message/message.h"

namespace skerry {

// Whole microseconds: a sum that is taken back is as if it had never been.
struct HiddenTime {
  int64_t transfer_us = 0;
  int64_t wait_us = 0;  // of that, the device stood idle
  bool operator==(const HiddenTime&) const = default;

  void Add(const HiddenTime& other);
  void TakeBack(const HiddenTime& other);
  // 1 where nothing was transferred.
  double Fraction() const;
};

// Of a round: of the replica that came to it last, as until then the others wait for its
// arithmetic, not for the network. Zeros before anybody who took part said it.
HiddenTime HiddenTimeOf(const RoundCommit& commit, const std::map<NodeId, RoundApplied>& reports);

}  // namespace skerry
