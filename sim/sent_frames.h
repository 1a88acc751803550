// Which of a process's frames went into its present connection to a peer: repeating those is
// needless, they are slow and not lost. Nearly always all of them did, so it is an interval of
// sequences and what is missing of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace skerry {

class SentFrames {
 public:
  void Clear() {
    first_ = last_ = 0;
    missing_.clear();
  }

  // Sequence `sequence` > 0 goes into the connection. False: it is in there already.
  bool Add(uint64_t sequence) {
    if (sequence == last_ + 1 && last_ != 0) {
      last_ = sequence;
      return true;
    }
    if (last_ == 0) {
      first_ = last_ = sequence;
      return true;
    }
    if (sequence > last_) {
      Miss(last_ + 1, sequence);
      last_ = sequence;
      return true;
    }
    if (sequence < first_) {
      Miss(sequence + 1, first_);
      first_ = sequence;
      return true;
    }
    const auto at = std::lower_bound(missing_.begin(), missing_.end(), sequence);
    if (at == missing_.end() || *at != sequence) return false;
    missing_.erase(at);
    return true;
  }

  // It was lost with its connection.
  void Remove(uint64_t sequence) {
    if (sequence < first_ || sequence > last_) return;
    const auto at = std::lower_bound(missing_.begin(), missing_.end(), sequence);
    if (at == missing_.end() || *at != sequence) missing_.insert(at, sequence);
  }

 private:
  // All of [from, to).
  void Miss(uint64_t from, uint64_t to) {
    auto at = std::lower_bound(missing_.begin(), missing_.end(), from);
    for (; from < to; ++from) at = missing_.insert(at, from) + 1;
  }

  uint64_t first_ = 0, last_ = 0;  // 0: none
  std::vector<uint64_t> missing_;  // of [first_, last_]; increasing
};

}  // namespace skerry
