#include "pipeline/plan/survival.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "pipeline/plan/route.h"

namespace skerry {

double SecondsToLoss(int64_t live, int64_t planned, const Churn& churn) {
  if (live <= 0) return 0;
  if (churn.departures_per_s <= 0) return std::numeric_limits<double>::infinity();
  const bool comes = churn.refill_s > 0 && std::isfinite(churn.refill_s);
  const double refills_per_s = comes ? 1 / churn.refill_s : 0;
  double one_fewer_s = 0;  // D_i
  double total_s = 0;
  for (int64_t i = std::max(live, planned); i >= 1; --i) {
    const double leaving = static_cast<double>(i) * churn.departures_per_s;
    one_fewer_s = (1 + refills_per_s * one_fewer_s) / leaving;
    if (i <= live) total_s += one_fewer_s;
  }
  return total_s;
}

double ExpectedLossSeconds(const PipelinePlan& plan, const Churn& churn, double horizon_s,
                           double lost_s) {
  PipelinePlan joined = plan;
  joined.joining.clear();
  std::vector<std::pair<int64_t, int64_t>> counts;  // live, planned; by stage
  int64_t lacking = 0;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const auto live = LiveReplicas(joined, static_cast<int32_t>(i)).size();
    const auto planned = plan.stages[i].replicas.size();
    counts.emplace_back(live, planned);
    if (live > 0 && live < planned) ++lacking;
  }
  Churn shared = churn;
  shared.refill_s *= static_cast<double>(std::max<int64_t>(1, lacking));
  double loss_s = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto [live, planned] = counts[i];
    if (live == 0) continue;
    const double probability = -std::expm1(-horizon_s / SecondsToLoss(live, planned, shared));
    loss_s += probability * lost_s * (i == 0 ? 1 : kLaterStageShare);
  }
  return loss_s;
}

}  // namespace skerry
