// The parameters of a stage as the fragments of a law: an OuterReplica for each, over one span of
// live weights. One fragment in all modes but streaming.
//
//   live weights   |  tensors …  |  tensors …  |  tensors …  |
//   fragment              0             1             2           each its base, momentum, message
//
// Where it is cut says common/fragment_cut.h. Rounds land in order, fragment after fragment
// (common/round_clock.h), so the versions of the fragments follow from the number of rounds landed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/fragment_cut.h"
#include "localsgd/outer_law.h"
#include "localsgd/outer_schedule.h"
#include "localsgd/piece_cut.h"

namespace skerry {

// Not thread-safe, movable, copyable. Spans are the whole stage's, [n].
class OuterFragments {
 public:
  // `block_sizes` add up to base.size(). `base` is x_0, the same bits on all replicas. Where rounds
  // are sharded `sharded_over` is the number of the stage's planned replicas, else 0.
  OuterFragments(const OuterLaw& law, std::span<const int64_t> block_sizes,
                 std::span<const float> base, int64_t sharded_over = 0);

  // Those of a replica that joins when `version` rounds have landed: OuterReplica::At for each.
  static OuterFragments At(const OuterLaw& law, std::span<const int64_t> block_sizes,
                           int64_t version, std::span<const float> base,
                           std::span<const float> momentum, int64_t sharded_over = 0);

  int32_t count() const { return static_cast<int32_t>(ranges_.size()); }
  const OuterReplica& replica(int32_t fragment) const { return replicas_.at(Index(fragment)); }
  FragmentRange range(int32_t fragment) const { return ranges_.at(Index(fragment)); }
  const PieceCut& cut(int32_t fragment) const { return cuts_.at(Index(fragment)); }
  int64_t size() const { return ranges_.back().first + ranges_.back().size; }
  int64_t version() const;  // rounds landed, of all fragments
  int64_t HeldBytes() const;

  // OuterReplica's own, on the fragment's part of `theta` [n]; the same errors.
  absl::StatusOr<Payload> Encode(int32_t fragment, std::span<float> theta);
  absl::Status Apply(int32_t fragment, std::span<const OuterReplica::Accepted> participants,
                     std::span<float> theta);
  absl::Status Restart(int32_t fragment, std::span<float> theta);
  void BeginAnew();
  bool ShiftsWeights() const { return replicas_.front().ShiftsWeights(); }
  absl::StatusOr<std::vector<Payload>> EncodePieces(int32_t fragment, std::span<float> theta);
  absl::Status ApplySums(int32_t fragment, std::span<const std::span<const uint8_t>> sums,
                         bool own_accepted, std::span<float> theta);

  // Of every fragment at its own version, [n]. The residual is zero where there is none.
  void ReadBase(std::span<float> out) const;
  void ReadMomentum(std::span<float> out) const;
  void ReadResidual(std::span<float> out) const;

 private:
  OuterFragments(const OuterLaw& law, std::span<const int64_t> block_sizes, int64_t sharded_over);
  OuterReplicaOptions OptionsOf(const OuterLaw& law, int32_t fragment) const;
  absl::Status CheckLength(size_t values) const;
  static size_t Index(int32_t fragment) { return static_cast<size_t>(fragment); }
  template <typename T>
  std::span<T> Part(int32_t fragment, std::span<T> whole) const;

  std::vector<FragmentRange> ranges_;
  std::vector<PieceCut> cuts_;
  std::vector<OuterReplica> replicas_;
};

}  // namespace skerry
