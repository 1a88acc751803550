#include "model/tensor_team.h"

#include <algorithm>
#include <new>
#include <utility>

#include "common/check.h"
#include "common/digest.h"
#include "common/status.h"
#include "model/initialize.h"

namespace skerry {
namespace {

// Devices wait for each other in the middle of every layer, so for one that shares its processor or
// reads a parked stash longer than where they meet once a step.
constexpr Duration kPatience = Duration::Seconds(60);

// Says that another one failed, not why.
bool IsOfGroup(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsDeadlineExceeded(status);
}

absl::Status CheckAlike(std::span<const TeamDevice> devices) {
  const std::string wanted = devices.front().backend->numeric_profile();
  for (const TeamDevice& device : devices) {
    if (device.backend->numeric_profile() == wanted) continue;
    return InvalidArgument(
        "--split tensors wants devices of one kind, and got %s beside %s; choose such with "
        "--devices, or use --split sequences",
        device.backend->numeric_profile(), wanted);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<StageTeam>> TensorTeam::Create(const RunConfig& config,
                                                              const TeamStage& stage,
                                                              std::span<const TeamDevice> devices) {
  const auto count = static_cast<int32_t>(devices.size());
  SKERRY_CHECK(count > 1);
  SKERRY_RETURN_IF_ERROR(CheckAlike(devices));
  SKERRY_ASSIGN_OR_RETURN(
      TensorSplit split,
      TensorSplit::Of(config, stage.first_layer, stage.last_layer, stage.holds_ends, count));
  std::unique_ptr<TensorTeam> team(new TensorTeam(std::move(split)));
  team->holds_ends_ = stage.holds_ends;
  team->parts_ = {{stage.first_layer, 0, team->split_.whole().size()}};
  team->has_moments_ = config.inner.optimizer != InnerOptimizer::kSgd;
  SKERRY_RETURN_IF_ERROR(team->MakeGroup(config, devices));
  for (size_t i = 0; i < devices.size(); ++i) {
    Member& member = team->members_[i];
    DeviceShare share;
    share.host = devices[i].host;
    share.parking = devices[i].parking;
    share.tensors = {count, static_cast<int32_t>(i)};
    share.sum = member.sum.get();
    SKERRY_ASSIGN_OR_RETURN(
        member.trainer,
        StageTrainer::Create(config, stage.first_layer, stage.last_layer, stage.holds_ends,
                             member.backend, stage.recomputed_layers, share));
    member.squares.resize(team->layout().blocks().size());
  }
  team->squares_.resize(team->layout().blocks().size());
  team->threads_ = std::make_unique<DeviceThreads>(devices.size());
  team->host_.resize(static_cast<size_t>(team->layout().size()));
  InitializeParameters(config.seed, config.model, team->layout(), team->host_);
  team->HostParametersChanged();
  return team;
}

absl::Status TensorTeam::MakeGroup(const RunConfig& config, std::span<const TeamDevice> devices) {
  std::vector<Backend*> backends;
  for (const TeamDevice& device : devices) backends.push_back(device.backend);
  const bool hides = config.model.ladder > 0;
  GroupBeside group;
  if (hides) {
    SKERRY_ASSIGN_OR_RETURN(group, MakeGroupBeside(backends, kPatience));
  } else {
    SKERRY_ASSIGN_OR_RETURN(group.ends, MakeDeviceGroup(backends, kPatience));
  }
  streams_ = std::move(group.streams);
  for (size_t i = 0; i < devices.size(); ++i) {
    Member member;
    member.backend = backends[i];
    member.group = std::move(group.ends[i]);
    if (hides) member.beside = std::make_unique<SumThread>(member.group.get());
    member.sum =
        hides ? std::make_unique<BranchSum>(member.group.get(), member.beside.get(), member.backend)
              : std::make_unique<BranchSum>(member.group.get());
    members_.push_back(std::move(member));
  }
  return absl::OkStatus();
}

template <typename Work>
absl::Status TensorTeam::Together(const Work& work) const {
  std::vector<absl::Status> done(members_.size());
  threads_->DoAll([&](size_t i) {
    try {
      done[i] = work(i);
    } catch (const std::bad_alloc&) {
      done[i] = ResourceExhausted("device %d: no memory for what its work takes", i);
    }
    if (done[i].ok()) return;
    members_[i].group->Abort(done[i]);
    members_[i].sum->EndAll();  // of a pass that broke off
  });
  absl::Status error;
  for (const absl::Status& status : done) {
    if (status.ok()) continue;
    if (error.ok() || (IsOfGroup(error) && !IsOfGroup(status))) error = status;
  }
  return error;
}

// Whatever may be refused is refused before any device begins: those that began would wait.
absl::Status TensorTeam::ForwardFirst(MicrobatchKey key, std::span<const int32_t> tokens,
                                      std::span<float> out) {
  SKERRY_RETURN_IF_ERROR(first().CheckTokens(tokens));
  SKERRY_RETURN_IF_ERROR(first().CheckStream(out.size(), out.size()));
  SKERRY_RETURN_IF_ERROR(first().CheckForward(key));
  return Together([&](size_t i) {
    return members_[i].trainer->ForwardFirst(key, tokens, i == 0 ? out : std::span<float>());
  });
}

absl::Status TensorTeam::Forward(MicrobatchKey key, std::span<const float> in,
                                 std::span<float> out) {
  SKERRY_RETURN_IF_ERROR(first().CheckStream(in.size(), out.size()));
  SKERRY_RETURN_IF_ERROR(first().CheckForward(key));
  return Together([&](size_t i) {
    return members_[i].trainer->Forward(key, in, i == 0 ? out : std::span<float>());
  });
}

absl::StatusOr<float> TensorTeam::Loss(MicrobatchKey key, std::span<const float> in,
                                       std::span<const int32_t> targets, std::span<float> d_in) {
  SKERRY_RETURN_IF_ERROR(first().CheckLoss(key, targets));
  SKERRY_RETURN_IF_ERROR(first().CheckStream(in.size(), d_in.size()));
  std::vector<float> losses(members_.size());  // all the same
  SKERRY_RETURN_IF_ERROR(Together([&](size_t i) -> absl::Status {
    StageTrainer& trainer = *members_[i].trainer;
    SKERRY_ASSIGN_OR_RETURN(losses[i],
                            trainer.Loss(key, in, targets, i == 0 ? d_in : std::span<float>()));
    return absl::OkStatus();
  }));
  return losses.front();
}

absl::Status TensorTeam::Backward(MicrobatchKey key, std::span<const float> d_out,
                                  std::span<float> d_in) {
  SKERRY_RETURN_IF_ERROR(
      first().CheckStream(d_out.size(), holds_ends_ ? d_out.size() : d_in.size()));
  if (holds_ends_ && !d_in.empty()) return InvalidArgument("nothing lies before the embedding");
  SKERRY_RETURN_IF_ERROR(first().CheckBackward(key));
  return Together([&](size_t i) {
    return members_[i].trainer->Backward(key, d_out, i == 0 ? d_in : std::span<float>());
  });
}

absl::Status TensorTeam::BackwardPartOf(MicrobatchKey key, size_t, std::span<const float> d_out,
                                        std::span<float> d_in) {
  return Backward(key, d_out, d_in);
}

void TensorTeam::TakePart(size_t, std::span<const MicrobatchKey> keys, std::span<float> sums) {
  for (const MicrobatchKey key : keys) Accumulate(key);
  TakeGradients(sums);
}

void TensorTeam::Accumulate(MicrobatchKey key) {
  threads_->DoAll([&](size_t i) { members_[i].trainer->Accumulate(key); });
}

void TensorTeam::Discard(MicrobatchKey key) {
  for (const Member& member : members_) member.trainer->Discard(key);
}

absl::Status TensorTeam::OptimizerStep(int64_t step, int32_t microbatches) {
  if (microbatches == 0) return absl::OkStatus();
  threads_->DoAll([&](size_t i) {
    Member& member = members_[i];
    split_.Squares(static_cast<int32_t>(i), *member.backend, member.trainer->gradient_sum(),
                   member.squares);
  });
  std::fill(squares_.begin(), squares_.end(), 0);
  for (const Member& member : members_) {
    for (size_t b = 0; b < squares_.size(); ++b) squares_[b] += member.squares[b];
  }
  return threads_->RunAll(
      [&](size_t i) { return members_[i].trainer->StepWith(squares_, step, microbatches); });
}

void TensorTeam::TakeGradients(std::span<float> sums) {
  threads_->DoAll([&](size_t i) {
    const Member& member = members_[i];
    float* const own = member.trainer->gradient_sum();
    split_.Read(static_cast<int32_t>(i), *member.backend, own, sums);
    member.backend->Fill(own, 0, member.trainer->layout().size());
    member.backend->Synchronize();
  });
}

void TensorTeam::PutGradients(std::span<const float> sums) {
  threads_->DoAll([&](size_t i) {
    split_.Write(static_cast<int32_t>(i), *members_[i].backend, sums,
                 members_[i].trainer->gradient_sum());
  });
}

absl::Status TensorTeam::OptimizerStepOn(std::span<const float> sums, int64_t step,
                                         int32_t microbatches) {
  if (microbatches == 0) return absl::OkStatus();
  std::vector<float> later(sums.size());
  TakeGradients(later);
  PutGradients(sums);
  const absl::Status status = OptimizerStep(step, microbatches);
  PutGradients(later);
  return status;
}

void TensorTeam::RaiseRates(const std::vector<int32_t>& remade) {
  for (const Member& member : members_) member.trainer->RaiseRates(remade);
}

void TensorTeam::ReadMoments(std::span<float> first_moment, std::span<float> second_moment) const {
  SKERRY_CHECK(std::ssize(first_moment) == moments() && std::ssize(second_moment) == moments());
  if (!has_moments_) return;
  threads_->DoAll([&](size_t i) {
    const StageOptimizer& optimizer = members_[i].trainer->optimizer();
    const auto rank = static_cast<int32_t>(i);
    split_.Read(rank, optimizer.holder(), optimizer.first_moment(), first_moment);
    split_.Read(rank, optimizer.holder(), optimizer.second_moment(), second_moment);
  });
}

absl::Status TensorTeam::WriteMoments(int64_t steps, std::span<const float> first_moment,
                                      std::span<const float> second_moment) {
  if (std::ssize(first_moment) != moments() || std::ssize(second_moment) != moments() ||
      steps < 0) {
    return InvalidArgument("moments: want %d values, got %d and %d of %d steps", moments(),
                           first_moment.size(), second_moment.size(), steps);
  }
  threads_->DoAll([&](size_t i) {
    StageOptimizer& optimizer = members_[i].trainer->optimizer();
    const auto rank = static_cast<int32_t>(i);
    optimizer.GoOnFrom(steps);
    if (!has_moments_) return;
    split_.Write(rank, optimizer.holder(), first_moment, optimizer.first_moment());
    split_.Write(rank, optimizer.holder(), second_moment, optimizer.second_moment());
  });
  return absl::OkStatus();
}

void TensorTeam::ReadParameters(std::span<float> out) {
  threads_->DoAll([&](size_t i) {
    split_.Read(static_cast<int32_t>(i), *members_[i].backend, members_[i].trainer->weights(), out);
  });
}

void TensorTeam::WriteParameters(std::span<const float> values) {
  threads_->DoAll([&](size_t i) {
    StageTrainer& trainer = *members_[i].trainer;
    split_.Write(static_cast<int32_t>(i), *members_[i].backend, values, trainer.weights());
    trainer.WeightsChanged();
  });
}

std::span<float> TensorTeam::HostParameters() {
  ReadParameters(host_);
  return host_;
}

void TensorTeam::HostParametersChanged() {
  WriteParameters(host_);
}

absl::Status TensorTeam::CheckEqual() {
  std::vector<std::vector<float>> shared(members_.size());
  threads_->DoAll([&](size_t i) {
    shared[i] = split_.ReadShared(static_cast<int32_t>(i), *members_[i].backend,
                                  members_[i].trainer->weights());
  });
  const Digest digest = DigestOf(std::span<const float>(shared[0]));
  for (size_t i = 1; i < shared.size(); ++i) {
    if (DigestOf(std::span<const float>(shared[i])) == digest) continue;
    return DataLoss("device %d of %d holds other norms than the first", i, shared.size());
  }
  return absl::OkStatus();
}

int64_t TensorTeam::HeldBytes() const {
  int64_t held = std::ssize(host_) * static_cast<int64_t>(sizeof(float));
  for (const Member& member : members_) held += member.trainer->HeldBytes();
  return held;
}

void TensorTeam::Trim() {
  for (const Member& member : members_) member.trainer->Trim();
}

}  // namespace skerry
