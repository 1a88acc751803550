#include "localsgd/outer_fragments.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "common/check.h"
#include "common/status.h"

namespace skerry {

std::vector<FragmentRange> CutFragments(std::span<const int64_t> block_sizes, int32_t fragments) {
  SKERRY_CHECK(fragments >= 1);
  const int64_t total = std::accumulate(block_sizes.begin(), block_sizes.end(), int64_t{0});
  std::vector<FragmentRange> ranges;
  size_t block = 0;
  int64_t first = 0;
  for (int32_t f = 0; f < fragments; ++f) {
    const int64_t ideal = total * (f + 1) / fragments;
    int64_t end = first;
    // A block belongs to this fragment when that brings the cut nearer to where it should be.
    while (block < block_sizes.size() &&
           (f + 1 == fragments ||
            std::llabs(end + block_sizes[block] - ideal) <= std::llabs(end - ideal))) {
      end += block_sizes[block++];
    }
    ranges.push_back({first, end - first});
    first = end;
  }
  return ranges;
}

OuterFragments::OuterFragments(const OuterLaw& law, std::span<const int64_t> block_sizes,
                               std::span<const float> base)
    : ranges_(CutFragments(block_sizes, law.fragments)) {
  SKERRY_CHECK(ranges_.back().first + ranges_.back().size == static_cast<int64_t>(base.size()));
  for (const FragmentRange& range : ranges_) {
    const auto part =
        base.subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.size));
    replicas_.emplace_back(law.config, std::vector<float>(part.begin(), part.end()), law.replica);
  }
}

template <typename T>
std::span<T> OuterFragments::Part(int32_t fragment, std::span<T> whole) const {
  const FragmentRange range = ranges_.at(Index(fragment));
  return whole.subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.size));
}

absl::StatusOr<Bytes> OuterFragments::Encode(int32_t fragment, std::span<const float> theta) {
  SKERRY_RETURN_IF_ERROR(CheckLength(theta.size()));
  return replicas_.at(Index(fragment)).Encode(Part(fragment, theta));
}

absl::Status OuterFragments::Apply(int32_t fragment,
                                   std::span<const OuterReplica::Accepted> participants,
                                   std::span<float> theta) {
  SKERRY_RETURN_IF_ERROR(CheckLength(theta.size()));
  return replicas_.at(Index(fragment)).Apply(participants, Part(fragment, theta));
}

absl::Status OuterFragments::Restart(int32_t fragment, std::span<float> theta) {
  SKERRY_RETURN_IF_ERROR(CheckLength(theta.size()));
  return replicas_.at(Index(fragment)).Restart(Part(fragment, theta));
}

absl::Status OuterFragments::CheckLength(size_t values) const {
  const auto want = static_cast<size_t>(ranges_.back().first + ranges_.back().size);
  if (values == want) return absl::OkStatus();
  return InvalidArgument("fragments: want %d weights, got %d", want, values);
}

void OuterFragments::ReadBase(std::span<float> out) const {
  SKERRY_CHECK(CheckLength(out.size()).ok());
  for (int32_t f = 0; f < count(); ++f) {
    const auto base = replicas_.at(Index(f)).base();
    std::copy(base.begin(), base.end(), Part(f, out).begin());
  }
}

}  // namespace skerry
