#include "model/sequence_team.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "common/check.h"
#include "common/digest.h"
#include "common/status.h"

namespace skerry {
namespace {

// A device's part of an array of the whole stage; nothing of nothing.
template <typename T>
std::span<T> Within(const GroupPart& part, std::span<T> whole) {
  if (whole.empty()) return whole;
  return whole.subspan(static_cast<size_t>(part.first), static_cast<size_t>(part.size));
}

}  // namespace

std::vector<int32_t> ShareSequences(int32_t sequences, std::span<const double> rates) {
  std::vector<int32_t> shares(rates.size());
  for (int32_t s = 0; s < sequences; ++s) {
    size_t best = 0;
    const auto end_of = [&](size_t i) { return (shares[i] + 1) / rates[i]; };
    for (size_t i = 1; i < rates.size(); ++i) {
      if (end_of(i) < end_of(best)) best = i;
    }
    ++shares[best];
  }
  return shares;
}

std::vector<GroupPart> OptimizerParts(const InnerConfig& inner, const ParameterLayout& layout,
                                      int32_t devices) {
  std::vector<GroupPart> parts;
  int64_t first = 0;
  for (int32_t p = 0; p < devices; ++p) {
    const GroupPart even = PartOf(layout.size(), devices, p);
    int64_t last = even.first + even.size;
    if (inner.optimizer == InnerOptimizer::kMuon && p + 1 < devices) {
      int64_t nearest = 0;
      for (const TensorSlot& slot : layout.tensors()) {
        if (std::abs(slot.offset - last) < std::abs(nearest - last)) nearest = slot.offset;
      }
      last = std::max(first, nearest);
    }
    parts.push_back({first, last - first});
    first = last;
  }
  return parts;
}

absl::StatusOr<std::unique_ptr<StageTeam>> SequenceTeam::Create(
    const RunConfig& config, const TeamStage& stage, std::span<const TeamDevice> devices) {
  SKERRY_CHECK(!devices.empty());
  const int32_t sequences = config.pipeline.sequences_per_microbatch;
  std::vector<double> rates;
  for (const TeamDevice& device : devices) rates.push_back(device.rate);
  const std::vector<int32_t> shares = ShareSequences(sequences, rates);
  std::unique_ptr<SequenceTeam> team(new SequenceTeam);
  team->tokens_ = int64_t{sequences} * config.model.context;
  team->hidden_ = config.model.hidden;
  team->has_moments_ = config.inner.optimizer != InnerOptimizer::kSgd;
  team->is_cut_evenly_ = config.inner.optimizer != InnerOptimizer::kMuon;
  const auto members = static_cast<int32_t>(shares.size()) -
                       static_cast<int32_t>(std::count(shares.begin(), shares.end(), 0));
  const std::vector<GroupPart> parts =
      OptimizerParts(config.inner,
                     ParameterLayout::ForStage(config.model, stage.first_layer, stage.last_layer,
                                               stage.holds_ends),
                     members);
  std::vector<Backend*> used;
  int64_t first_token = 0;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (shares[i] == 0) continue;
    RunConfig own = config;
    own.pipeline.sequences_per_microbatch = shares[i];
    Member member;
    member.part = parts[used.size()];
    SKERRY_ASSIGN_OR_RETURN(
        member.trainer,
        StageTrainer::Create(
            own, stage.first_layer, stage.last_layer, stage.holds_ends, devices[i].backend,
            stage.recomputed_layers,
            {sequences, member.part, devices[i].host, devices[i].parking, stage.least_part}));
    member.squares.resize(member.trainer->layout().blocks().size());
    team->squares_.resize(member.squares.size());
    member.first_token = first_token;
    member.tokens = int64_t{shares[i]} * config.model.context;
    first_token += member.tokens;
    team->members_.push_back(std::move(member));
    used.push_back(devices[i].backend);
  }
  team->threads_ = std::make_unique<DeviceThreads>(used.size());
  SKERRY_ASSIGN_OR_RETURN(auto groups, MakeDeviceGroup(used));
  for (size_t i = 0; i < used.size(); ++i) team->members_[i].group = std::move(groups[i]);
  return team;
}

template <typename T>
std::span<T> SequenceTeam::Rows(const Member& member, std::span<T> stream) const {
  if (stream.empty()) return stream;
  return stream.subspan(static_cast<size_t>(member.first_token * hidden_),
                        static_cast<size_t>(member.tokens * hidden_));
}

// Before anything is cut; the trainers check the rest.
absl::Status SequenceTeam::CheckLengths(size_t tokens, size_t stream) const {
  if (static_cast<int64_t>(tokens) == tokens_ && static_cast<int64_t>(stream) == tokens_ * hidden_)
    return absl::OkStatus();
  return InvalidArgument("%d tokens and a stream of %d values, a microbatch has %d and %d", tokens,
                         stream, tokens_, tokens_ * hidden_);
}

absl::Status SequenceTeam::ForwardFirst(MicrobatchKey key, std::span<const int32_t> tokens,
                                        std::span<float> out) {
  SKERRY_RETURN_IF_ERROR(CheckLengths(tokens.size(), out.size()));
  return threads_->RunAll([&](size_t i) {
    const Member& member = members_[i];
    const auto own =
        tokens.subspan(static_cast<size_t>(member.first_token), static_cast<size_t>(member.tokens));
    return member.trainer->ForwardFirst(key, own, Rows(member, out));
  });
}

absl::Status SequenceTeam::Forward(MicrobatchKey key, std::span<const float> in,
                                   std::span<float> out) {
  SKERRY_RETURN_IF_ERROR(CheckLengths(static_cast<size_t>(tokens_), in.size()));
  SKERRY_RETURN_IF_ERROR(CheckLengths(static_cast<size_t>(tokens_), out.size()));
  return threads_->RunAll([&](size_t i) {
    const Member& member = members_[i];
    return member.trainer->Forward(key, Rows(member, in), Rows(member, out));
  });
}

absl::StatusOr<float> SequenceTeam::Loss(MicrobatchKey key, std::span<const float> in,
                                         std::span<const int32_t> targets, std::span<float> d_in) {
  SKERRY_RETURN_IF_ERROR(CheckLengths(targets.size(), in.size()));
  SKERRY_RETURN_IF_ERROR(CheckLengths(targets.size(), d_in.size()));
  if (IsAlone()) return first().Loss(key, in, targets, d_in);
  std::vector<float> means(members_.size());
  SKERRY_RETURN_IF_ERROR(threads_->RunAll([&](size_t i) -> absl::Status {
    const Member& member = members_[i];
    const auto own = targets.subspan(static_cast<size_t>(member.first_token),
                                     static_cast<size_t>(member.tokens));
    SKERRY_ASSIGN_OR_RETURN(means[i],
                            member.trainer->Loss(key, Rows(member, in), own, Rows(member, d_in)));
    return absl::OkStatus();
  }));
  double sum = 0;
  for (size_t i = 0; i < members_.size(); ++i) {
    sum += double{means[i]} * static_cast<double>(members_[i].tokens);
  }
  return static_cast<float>(sum / static_cast<double>(tokens_));
}

absl::Status SequenceTeam::Backward(MicrobatchKey key, std::span<const float> d_out,
                                    std::span<float> d_in) {
  SKERRY_RETURN_IF_ERROR(CheckBackwardLengths(d_out, d_in));
  return threads_->RunAll([&](size_t i) {
    const Member& member = members_[i];
    return member.trainer->Backward(key, Rows(member, d_out), Rows(member, d_in));
  });
}

absl::Status SequenceTeam::BackwardPartOf(MicrobatchKey key, size_t part,
                                          std::span<const float> d_out, std::span<float> d_in) {
  SKERRY_RETURN_IF_ERROR(CheckBackwardLengths(d_out, d_in));
  return threads_->RunAll([&](size_t i) {
    const Member& member = members_[i];
    return member.trainer->BackwardPartOf(key, part, Rows(member, d_out), Rows(member, d_in));
  });
}

absl::Status SequenceTeam::CheckBackwardLengths(std::span<const float> d_out,
                                                std::span<const float> d_in) const {
  SKERRY_RETURN_IF_ERROR(CheckLengths(static_cast<size_t>(tokens_), d_out.size()));
  return d_in.empty() ? absl::OkStatus() : CheckLengths(static_cast<size_t>(tokens_), d_in.size());
}

void SequenceTeam::Accumulate(MicrobatchKey key) {
  threads_->DoAll([&](size_t i) { members_[i].trainer->Accumulate(key); });
}

void SequenceTeam::Discard(MicrobatchKey key) {
  for (const Member& member : members_) member.trainer->Discard(key);
}

absl::Status SequenceTeam::OptimizerStep(int64_t step, int32_t microbatches) {
  if (IsAlone()) return first().OptimizerStep(step, microbatches);
  if (microbatches == 0) return absl::OkStatus();
  const absl::Status reduced = threads_->RunAll([&](size_t i) -> absl::Status {
    Member& member = members_[i];
    SKERRY_RETURN_IF_ERROR(ReduceGradients(member));
    member.trainer->Squares(member.squares);
    return absl::OkStatus();
  });
  SKERRY_RETURN_IF_ERROR(reduced);
  std::fill(squares_.begin(), squares_.end(), 0);
  for (const Member& member : members_) {
    for (size_t b = 0; b < squares_.size(); ++b) squares_[b] += member.squares[b];
  }
  // Where a gradient is not finite all devices see it, and none waits for weights.
  return threads_->RunAll([&](size_t i) -> absl::Status {
    const Member& member = members_[i];
    SKERRY_RETURN_IF_ERROR(member.trainer->StepWith(squares_, step, microbatches));
    SKERRY_RETURN_IF_ERROR(GatherWeights(member));
    member.trainer->WeightsChanged();
    return absl::OkStatus();
  });
}

void SequenceTeam::TakeGradients(std::span<float> sums) {
  TakeFromAll(sums,
              [](StageTrainer& trainer, std::span<float> into) { trainer.TakeGradients(into); });
}

void SequenceTeam::TakePart(size_t part, std::span<const MicrobatchKey> keys,
                            std::span<float> sums) {
  TakeFromAll(sums, [&](StageTrainer& trainer, std::span<float> into) {
    trainer.TakePart(part, keys, into);
  });
}

template <typename Take>
void SequenceTeam::TakeFromAll(std::span<float> sums, const Take& take) {
  take(first(), sums);
  if (IsAlone()) return;
  std::vector<float> more(sums.size());
  for (size_t i = 1; i < members_.size(); ++i) {
    take(*members_[i].trainer, more);
    for (size_t k = 0; k < more.size(); ++k) sums[k] += more[k];
  }
}

absl::Status SequenceTeam::OptimizerStepOn(std::span<const float> sums, int64_t step,
                                           int32_t microbatches) {
  if (microbatches == 0) return absl::OkStatus();
  std::vector<float> later(sums.size());
  TakeGradients(later);
  first().PutGradients(sums);
  const absl::Status status = OptimizerStep(step, microbatches);
  first().PutGradients(later);
  return status;
}

// The member's part of the sums.
absl::Status SequenceTeam::ReduceGradients(const Member& member) const {
  float* const sums = member.trainer->gradient_sum();
  return is_cut_evenly_ ? member.group->ReduceScatter(sums, layout().size())
                        : member.group->AllReduce(sums, layout().size());
}

absl::Status SequenceTeam::GatherWeights(const Member& member) const {
  float* const weights = member.trainer->weights();
  if (is_cut_evenly_) return member.group->AllGather(weights, layout().size());
  for (size_t p = 0; p < members_.size(); ++p) {
    const GroupPart& part = members_[p].part;
    if (part.size == 0) continue;
    SKERRY_RETURN_IF_ERROR(
        member.group->Broadcast(weights + part.first, part.size, static_cast<int32_t>(p)));
  }
  return absl::OkStatus();
}

void SequenceTeam::RaiseRates(const std::vector<int32_t>& remade) {
  for (const Member& member : members_) member.trainer->RaiseRates(remade);
}

void SequenceTeam::ReadMoments(std::span<float> first_moment,
                               std::span<float> second_moment) const {
  SKERRY_CHECK(std::ssize(first_moment) == moments() && std::ssize(second_moment) == moments());
  threads_->DoAll([&](size_t i) {
    const Member& member = members_[i];
    member.trainer->optimizer().ReadMoments(Within(member.part, first_moment),
                                            Within(member.part, second_moment));
  });
}

absl::Status SequenceTeam::WriteMoments(int64_t steps, std::span<const float> first_moment,
                                        std::span<const float> second_moment) {
  if (std::ssize(first_moment) != moments() || std::ssize(second_moment) != moments()) {
    return InvalidArgument("moments: want %d values, got %d and %d", moments(), first_moment.size(),
                           second_moment.size());
  }
  return threads_->RunAll([&](size_t i) {
    const Member& member = members_[i];
    return member.trainer->optimizer().WriteMoments(steps, Within(member.part, first_moment),
                                                    Within(member.part, second_moment));
  });
}

void SequenceTeam::ReadParameters(std::span<float> out) {
  first().ReadParameters(out);
}

void SequenceTeam::WriteParameters(std::span<const float> values) {
  threads_->DoAll([&](size_t i) { members_[i].trainer->WriteParameters(values); });
}

std::span<float> SequenceTeam::HostParameters() {
  host_ = first().HostParameters();
  return host_;
}

void SequenceTeam::HostParametersChanged() {
  threads_->DoAll([&](size_t i) {
    if (i == 0) return first().HostParametersChanged();
    members_[i].trainer->WriteParameters(host_);
  });
}

absl::Status SequenceTeam::CheckEqual() {
  if (IsAlone()) return absl::OkStatus();
  std::vector<Digest> digests(members_.size());
  SKERRY_RETURN_IF_ERROR(threads_->RunAll([&](size_t i) {
    digests[i] = DigestOf(std::span<const float>(members_[i].trainer->HostParameters()));
    return absl::OkStatus();
  }));
  for (size_t i = 1; i < digests.size(); ++i) {
    if (digests[i] == digests[0]) continue;
    return DataLoss("device %d of %d holds other weights than the first", i, digests.size());
  }
  return absl::OkStatus();
}

int64_t SequenceTeam::HeldBytes() const {
  int64_t held = 0;
  for (const Member& member : members_) held += member.trainer->HeldBytes();
  return held;
}

void SequenceTeam::Trim() {
  for (const Member& member : members_) member.trainer->Trim();
}

std::string SequenceTeam::group_name() const {
  return IsAlone() ? "" : members_.front().group->name();
}

}  // namespace skerry
