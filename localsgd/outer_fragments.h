// The parameters of a stage as the fragments of a law: an OuterReplica for each, over one span of
// live weights. One fragment in all modes but streaming.
//
//   live weights   |  tensors …  |  tensors …  |  tensors …  |
//   fragment              0             1             2           each its base, momentum, message
//
// Cuts lie between blocks of tensors (a layer, the embedding), so that a tensor is never half old;
// cut points are those nearest to equal sizes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "localsgd/outer_law.h"
#include "localsgd/outer_schedule.h"

namespace skerry {

struct FragmentRange {
  int64_t first = 0;
  int64_t size = 0;
  bool operator==(const FragmentRange&) const = default;
};

// `fragments` ≥ 1 contiguous ranges of whole blocks. With fewer blocks than fragments the last
// ranges are empty.
std::vector<FragmentRange> CutFragments(std::span<const int64_t> block_sizes, int32_t fragments);

// Not thread-safe, movable, copyable. Spans are the whole stage's, [n].
class OuterFragments {
 public:
  // `block_sizes` add up to base.size(). `base` is x_0, the same bits on all replicas.
  OuterFragments(const OuterLaw& law, std::span<const int64_t> block_sizes,
                 std::span<const float> base);

  int32_t count() const { return static_cast<int32_t>(replicas_.size()); }
  const OuterReplica& replica(int32_t fragment) const { return replicas_.at(Index(fragment)); }
  FragmentRange range(int32_t fragment) const { return ranges_.at(Index(fragment)); }

  // OuterReplica's own, on the fragment's part of `theta` [n]; the same errors.
  absl::StatusOr<Bytes> Encode(int32_t fragment, std::span<const float> theta);
  absl::Status Apply(int32_t fragment, std::span<const OuterReplica::Accepted> participants,
                     std::span<float> theta);
  absl::Status Restart(int32_t fragment, std::span<float> theta);

  // The base of every fragment at its own version, [n].
  void ReadBase(std::span<float> out) const;

 private:
  absl::Status CheckLength(size_t values) const;
  static size_t Index(int32_t fragment) { return static_cast<size_t>(fragment); }
  template <typename T>
  std::span<T> Part(int32_t fragment, std::span<T> whole) const;

  std::vector<FragmentRange> ranges_;
  std::vector<OuterReplica> replicas_;
};

}  // namespace skerry
