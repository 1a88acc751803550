#include "sim/packet/lateness.h"

#include <algorithm>
#include <cmath>

#include "common/status.h"

namespace skerry {

int WakeLateness::BucketOf(int64_t nanos) {
  if (nanos <= 1) return 0;
  const double octaves = std::log2(static_cast<double>(nanos));
  return std::min(static_cast<int>(std::ceil(octaves * kPerOctave)), kBuckets - 1);
}

int64_t WakeLateness::UpperBound(int bucket) {
  return static_cast<int64_t>(std::ceil(std::exp2(static_cast<double>(bucket) / kPerOctave)));
}

void WakeLateness::Add(Duration late) {
  late = std::max(late, Duration());
  ++buckets_[static_cast<size_t>(BucketOf(late.nanos()))];
  ++count_;
  sum_nanos_ += static_cast<double>(late.nanos());
  most_ = std::max(most_, late);
}

void WakeLateness::Add(const WakeLateness& other) {
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_nanos_ += other.sum_nanos_;
  most_ = std::max(most_, other.most_);
}

Duration WakeLateness::mean() const {
  if (count_ == 0) return Duration();
  return Duration::Nanos(static_cast<int64_t>(sum_nanos_ / static_cast<double>(count_)));
}

Duration WakeLateness::Quantile(double share) const {
  const auto wanted = static_cast<int64_t>(std::ceil(share * static_cast<double>(count_)));
  int64_t seen = 0;
  for (int bucket = 0; bucket < kBuckets && count_ > 0; ++bucket) {
    seen += buckets_[static_cast<size_t>(bucket)];
    if (seen >= wanted) return std::min(Duration::Nanos(UpperBound(bucket)), most_);
  }
  return most_;
}

absl::Status WakeLateness::Verdict() const {
  const Duration p99 = Quantile(0.99);
  if (p99 <= kLatenessMax) return absl::OkStatus();
  return FailedPrecondition(
      "the packet shaper was late: 99%% of %d packets within %.2f ms (want %.0f ms), the worst "
      "%.1f ms; this machine cannot carry the network at that speed, so there is no report. Let "
      "nothing else run, use fewer nodes or lower rates, start as root (real-time priority), or "
      "use --shaper inprocess",
      count_, p99.millis(), kLatenessMax.millis(), most_.millis());
}

}  // namespace skerry
