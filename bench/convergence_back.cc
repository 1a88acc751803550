// Fleet: going back to a checkpoint (docs/decisions/0038-what-a-checkpoint-leaves-out.md).
#include <cmath>
#include <utility>

#include "bench/convergence_fleet.h"
#include "common/check.h"
#include "common/status.h"

namespace skerry::bench {
namespace {

double NormOf(std::span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += double{value} * value;
  return std::sqrt(squares);
}

}  // namespace

absl::Status StackedModel::TakeMoments(StackedModel& other) {
  for (size_t s = 0; s < stages_.size(); ++s) {
    const StageOptimizer& from = other.stages_[s].trainer->optimizer();
    std::vector<float> first(static_cast<size_t>(from.moments())), second(first.size());
    from.ReadMoments(first, second);
    SKERRY_RETURN_IF_ERROR(
        stages_[s].trainer->optimizer().WriteMoments(from.steps(), first, second));
  }
  return absl::OkStatus();
}

std::vector<float> Fleet::NotSent() {
  std::vector<float> all(theta_[0].size()), base = Base(), residual(base.size());
  const auto share = 1.0f / static_cast<float>(replicas_.size());
  for (size_t r = 0; r < replicas_.size(); ++r) {
    replicas_[r].model.Read(theta_[r]);
    replicas_[r].rounds.ReadResidual(residual);
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] += share * (base[i] - theta_[r][i] + residual[i]);
    }
  }
  const OuterFragments& rounds = replicas_[0].rounds;
  for (int32_t f = 0; f < rounds.count() && !reducers_.empty(); ++f) {
    for (int32_t p = 0; p < rounds.cut(f).count(); ++p) {
      const auto s = reducers_[static_cast<size_t>(f)].LeftOverOf(p);
      const auto first = static_cast<size_t>(rounds.range(f).first + rounds.cut(f).First(p));
      for (size_t i = 0; i < s.size(); ++i) all[first + i] += s[i];
    }
  }
  return all;
}

void Fleet::NoteBase() {
  base_before_ = Base();
}

absl::StatusOr<double> Fleet::GoBack() {
  for (const auto& flights : flights_) SKERRY_CHECK(flights.empty(), "no message is under way");
  const std::vector<float> base = Base(), left = NotSent();
  SKERRY_CHECK(base_before_.size() == base.size(), "NoteBase a round earlier");
  std::vector<float> moved(base);
  for (size_t i = 0; i < moved.size(); ++i) moved[i] -= base_before_[i];
  std::vector<float> momentum(base.size());
  const OuterFragments& rounds = replicas_[0].rounds;
  rounds.ReadMomentum(momentum);
  const std::vector<int64_t> blocks = BlocksOf(config_.model);
  for (Replica& replica : replicas_) {
    SKERRY_RETURN_IF_ERROR(replica.model.TakeMoments(replicas_[0].model));
    replica.model.Write(base);
    replica.rounds = OuterFragments::At(law_, blocks, replica.rounds.version(), base, momentum,
                                        training_.sharded ? training_.replicas : 0);
  }
  MakeReducers();
  return NormOf(left) / NormOf(moved);
}

}  // namespace skerry::bench
