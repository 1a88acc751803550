#include "localsgd/outer_fragments.h"

#include <algorithm>

#include "common/check.h"
#include "common/status.h"

namespace skerry {

OuterFragments::OuterFragments(const OuterLaw& law, std::span<const int64_t> block_sizes,
                               int64_t sharded_over)
    : ranges_(CutFragments(block_sizes, law.fragments)) {
  for (const FragmentRange& range : ranges_) {
    cuts_.push_back(sharded_over > 0 ? PieceCut::Of(range.size, sharded_over) : PieceCut());
  }
  replicas_.reserve(ranges_.size());
}

OuterReplicaOptions OuterFragments::OptionsOf(const OuterLaw& law, int32_t fragment) const {
  OuterReplicaOptions options = law.replica;
  options.cut = cut(fragment);
  options.shape = SliceShape(law.replica.shape, range(fragment).first, range(fragment).size);
  return options;
}

OuterFragments::OuterFragments(const OuterLaw& law, std::span<const int64_t> block_sizes,
                               std::span<const float> base, int64_t sharded_over)
    : OuterFragments(law, block_sizes, sharded_over) {
  SKERRY_CHECK(CheckLength(base.size()).ok());
  for (int32_t f = 0; f < count(); ++f) {
    const auto part = Part(f, base);
    replicas_.emplace_back(law.config, std::vector<float>(part.begin(), part.end()),
                           OptionsOf(law, f));
  }
}

OuterFragments OuterFragments::At(const OuterLaw& law, std::span<const int64_t> block_sizes,
                                  int64_t version, std::span<const float> base,
                                  std::span<const float> momentum, int64_t sharded_over) {
  OuterFragments fragments(law, block_sizes, sharded_over);
  SKERRY_CHECK(fragments.CheckLength(base.size()).ok() && momentum.size() == base.size());
  const int32_t count = fragments.count();
  for (int32_t f = 0; f < count; ++f) {
    const auto x = fragments.Part(f, base), m = fragments.Part(f, momentum);
    fragments.replicas_.push_back(OuterReplica::At(
        law.config, (version + count - 1 - f) / count, std::vector<float>(x.begin(), x.end()),
        std::vector<float>(m.begin(), m.end()), fragments.OptionsOf(law, f)));
  }
  return fragments;
}

int64_t OuterFragments::version() const {
  int64_t rounds = 0;
  for (const OuterReplica& replica : replicas_) rounds += replica.version();
  return rounds;
}

int64_t OuterFragments::HeldBytes() const {
  int64_t bytes = 0;
  for (const OuterReplica& replica : replicas_) bytes += replica.HeldBytes();
  return bytes;
}

template <typename T>
std::span<T> OuterFragments::Part(int32_t fragment, std::span<T> whole) const {
  const FragmentRange range = ranges_.at(Index(fragment));
  return whole.subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.size));
}

absl::StatusOr<Payload> OuterFragments::Encode(int32_t fragment, std::span<float> theta) {
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

void OuterFragments::BeginAnew() {
  for (OuterReplica& replica : replicas_) replica.BeginAnew();
}

absl::StatusOr<std::vector<Payload>> OuterFragments::EncodePieces(int32_t fragment,
                                                                  std::span<float> theta) {
  SKERRY_RETURN_IF_ERROR(CheckLength(theta.size()));
  return replicas_.at(Index(fragment)).EncodePieces(Part(fragment, theta));
}

absl::Status OuterFragments::ApplySums(int32_t fragment,
                                       std::span<const std::span<const uint8_t>> sums,
                                       bool own_accepted, std::span<float> theta) {
  SKERRY_RETURN_IF_ERROR(CheckLength(theta.size()));
  return replicas_.at(Index(fragment)).ApplySums(sums, own_accepted, Part(fragment, theta));
}

absl::Status OuterFragments::CheckLength(size_t values) const {
  const auto want = static_cast<size_t>(size());
  if (values == want) return absl::OkStatus();
  return InvalidArgument("fragments: want %d weights, got %d", want, values);
}

void OuterFragments::ReadBase(std::span<float> out) const {
  SKERRY_CHECK(CheckLength(out.size()).ok());
  for (int32_t f = 0; f < count(); ++f) {
    const auto base = replica(f).base();
    std::copy(base.begin(), base.end(), Part(f, out).begin());
  }
}

void OuterFragments::ReadMomentum(std::span<float> out) const {
  SKERRY_CHECK(CheckLength(out.size()).ok());
  for (int32_t f = 0; f < count(); ++f) {
    const auto momentum = replica(f).momentum();
    const auto part = Part(f, out);
    if (momentum.empty()) std::fill(part.begin(), part.end(), 0.0f);
    std::copy(momentum.begin(), momentum.end(), part.begin());
  }
}

void OuterFragments::ReadResidual(std::span<float> out) const {
  SKERRY_CHECK(CheckLength(out.size()).ok());
  for (int32_t f = 0; f < count(); ++f) replica(f).ReadResidual(Part(f, out));
}

}  // namespace skerry
