// A priority queue of timed events for simulations that run millions of times: a calendar of
// equally wide buckets (Brown 1988) with a bitmap of those in use.
//
// Order is exact, by time, then by order of creation, whatever the width; the width only decides
// the speed (best: about one event per bucket). Times past the calendar share the last bucket.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace skerry {

struct TimedEvent {
  double at = 0;
  uint32_t order = 0;  // of creation
  int16_t subject = 0;
  int16_t position = 0;
  int32_t next = -1;  // in its bucket

  bool IsBefore(const TimedEvent& other) const {
    return at != other.at ? at < other.at : order < other.order;
  }
};

class BucketQueue {
 public:
  // Empties it. `horizon_s`: about the latest time to come, > 0.
  void Clear(double horizon_s) {
    for (size_t word = 0; word < kWords; ++word) {
      for (; used_[word] != 0; used_[word] &= used_[word] - 1) {
        heads_[word * 64 + static_cast<size_t>(std::countr_zero(used_[word]))] = -1;
      }
    }
    pool_.clear();
    waiting_ = 0;
    first_ = 0;
    per_second_ = static_cast<double>(kBuckets) / horizon_s;
  }

  bool empty() const { return waiting_ == 0; }

  // `at` ≥ 0 and not before the last popped event.
  void Push(double at, int16_t subject, int16_t position) {
    const double place = at * per_second_;
    const size_t bucket =
        place < static_cast<double>(kBuckets) ? static_cast<size_t>(place) : kBuckets - 1;
    const auto order = static_cast<uint32_t>(pool_.size());
    pool_.push_back({at, order, subject, position, heads_[bucket]});
    heads_[bucket] = static_cast<int32_t>(order);
    used_[bucket / 64] |= uint64_t{1} << (bucket % 64);
    ++waiting_;
  }

  // Not empty. Valid until the next Push.
  const TimedEvent& Pop() {
    while (used_[first_] == 0) ++first_;
    const size_t bucket = first_ * 64 + static_cast<size_t>(std::countr_zero(used_[first_]));
    int32_t* link = &heads_[bucket];
    int32_t* earliest = link;
    for (link = &At(*link).next; *link >= 0; link = &At(*link).next) {
      if (At(*link).IsBefore(At(*earliest))) earliest = link;
    }
    TimedEvent& event = At(*earliest);
    *earliest = event.next;
    if (heads_[bucket] < 0) used_[first_] &= used_[first_] - 1;
    --waiting_;
    return event;
  }

 private:
  static constexpr size_t kBuckets = 1024;
  static constexpr size_t kWords = kBuckets / 64;

  TimedEvent& At(int32_t index) { return pool_[static_cast<size_t>(index)]; }

  std::array<int32_t, kBuckets> heads_ = [] {
    std::array<int32_t, kBuckets> heads;
    heads.fill(-1);
    return heads;
  }();
  std::array<uint64_t, kWords> used_{};
  std::vector<TimedEvent> pool_;
  size_t waiting_ = 0;
  size_t first_ = 0;  // word; none before it is in use
  double per_second_ = 1;
};

}  // namespace skerry
