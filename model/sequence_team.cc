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

absl::StatusOr<std::unique_ptr<StageTeam>> SequenceTeam::Create(const RunConfig& config,
                                                                const TeamStage& stage,
                                                                std::span<const TeamDevice> devices,
                                                                const Groups& groups) {
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
    member.backend = devices[i].backend;
    member.part = parts[used.size()];
    SKERRY_ASSIGN_OR_RETURN(
        member.trainer,
        StageTrainer::Create(own, stage.first_layer, stage.last_layer, stage.holds_ends,
                             devices[i].backend, stage.recomputed_layers,
                             {sequences, member.part, devices[i].host, devices[i].parking,
                              stage.least_part, members > 1}));
    member.squares.resize(member.trainer->layout().blocks().size());
    team->squares_.resize(member.squares.size());
    member.first_token = first_token;
    member.tokens = int64_t{shares[i]} * config.model.context;
    first_token += member.tokens;
    team->members_.push_back(std::move(member));
    used.push_back(devices[i].backend);
  }
  team->threads_ = std::make_unique<DeviceThreads>(used.size());
  team->CutParts(config, stage);
  if (team->IsAlone()) return team;
  SKERRY_ASSIGN_OR_RETURN(GroupBeside beside, groups ? groups(used) : MakeGroupBeside(used));
  for (size_t i = 0; i < used.size(); ++i) team->members_[i].group = std::move(beside.ends[i]);
  team->streams_ = std::move(beside.streams);
  team->sums_ = std::make_unique<SumsBeside>(used.size());
  return team;
}

void SequenceTeam::CutParts(const RunConfig& config, const TeamStage& stage) {
  parts_ = BackwardParts(layout(), stage.first_layer, stage.last_layer, stage.least_part,
                         config.model.ladder);
  const std::vector<BackwardPart>& cuts = first().parts();
  for (const BackwardPart& part : parts_) {
    size_t end = FirstCut(cut_ends_.size());
    while (end < cuts.size() && cuts[end].down_to >= part.down_to) ++end;
    cut_ends_.push_back(end);
  }
}

template <typename T>
std::span<T> SequenceTeam::Rows(const Member& member, std::span<T> stream) const {
  if (stream.empty()) return stream;
  return stream.subspan(static_cast<size_t>(member.first_token * hidden_),
                        static_cast<size_t>(member.tokens * hidden_));
}

// Before anything is cut; the trainers check the rest.
absl::Status SequenceTeam::CheckLengths(size_t tokens, size_t stream) const {
  const bool is_stream =
      std::cmp_equal(stream, tokens_ * hidden_) || (stream == 0 && KeepsStream());
  if (std::cmp_equal(tokens, tokens_) && is_stream) return absl::OkStatus();
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
  for (size_t cut = FirstCut(part); cut < cut_ends_[part]; ++cut) {
    SKERRY_RETURN_IF_ERROR(threads_->RunAll([&](size_t i) {
      const Member& member = members_[i];
      return member.trainer->BackwardPartOf(key, cut, Rows(member, d_out), Rows(member, d_in));
    }));
    const bool is_summed = std::find(summed_.begin(), summed_.end(), key) != summed_.end();
    if (is_summed && summed_cuts_ == cut) BeginSum(cut);
  }
  return absl::OkStatus();
}

absl::Status SequenceTeam::CheckBackwardLengths(std::span<const float> d_out,
                                                std::span<const float> d_in) const {
  SKERRY_RETURN_IF_ERROR(CheckLengths(static_cast<size_t>(tokens_), d_out.size()));
  return d_in.empty() ? absl::OkStatus() : CheckLengths(static_cast<size_t>(tokens_), d_in.size());
}

void SequenceTeam::Accumulate(MicrobatchKey key) {
  if (summed_cuts_ > 0) return later_.push_back(key);
  threads_->DoAll([&](size_t i) { members_[i].trainer->Accumulate(key); });
}

void SequenceTeam::Discard(MicrobatchKey key) {
  for (const Member& member : members_) member.trainer->Discard(key);
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
