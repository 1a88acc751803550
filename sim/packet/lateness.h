// How late a packet shaper did what was due: the measure of whether its run means anything.
//
// A histogram with buckets of an eighth of a power of two, so quantiles are right to 12 %. Pure;
// not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "common/instant.h"

namespace skerry {

// A run whose 99th percentile is above this is not reported.
inline constexpr Duration kLatenessMax = Duration::Millis(1);

class WakeLateness {
 public:
  void Add(Duration late);  // less than 0 counts as 0
  void Add(const WakeLateness& other);

  int64_t count() const { return count_; }
  Duration mean() const;
  Duration most() const { return most_; }
  // The smallest bucket bound that `share` of the values do not exceed; 0 without values.
  Duration Quantile(double share) const;

  // FailedPrecondition if the 99th percentile exceeds kLatenessMax: by how much, why that may be,
  // what to do.
  absl::Status Verdict() const;

 private:
  static constexpr int kPerOctave = 8;
  static constexpr int kBuckets = 40 * kPerOctave;

  static int BucketOf(int64_t nanos);
  static int64_t UpperBound(int bucket);

  std::array<int64_t, kBuckets> buckets_{};
  int64_t count_ = 0;
  double sum_nanos_ = 0;
  Duration most_;
};

}  // namespace skerry
