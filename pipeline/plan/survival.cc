#include "pipeline/plan/survival.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "pipeline/plan/route.h"

namespace skerry {
namespace {

constexpr int kSteps = 100;  // of the integration

// One implicit step of f: a tridiagonal system, solved from the smallest i up and back.
void Step(double leaving, double coming, double dt, std::vector<double>& f) {
  const size_t n = f.size();  // f[i − 1] is of i live replicas
  std::vector<double> upper(n);
  for (size_t i = 1; i <= n; ++i) {
    const double down = dt * leaving * static_cast<double>(i);
    const double up = i == n ? 0 : dt * coming;
    const double below = i == 1 ? 1 : f[i - 2];
    const double diagonal = 1 + down + up - (i == 1 ? 0 : down * upper[i - 2]);
    f[i - 1] = (f[i - 1] + down * below) / diagonal;
    upper[i - 1] = up / diagonal;
  }
  for (size_t i = n - 1; i >= 1; --i) f[i - 1] += upper[i - 1] * f[i];
}

}  // namespace

double LossProbability(int64_t live, int64_t planned, const Churn& churn, double horizon_s) {
  if (live <= 0) return 1;
  if (churn.departures_per_s <= 0 || horizon_s <= 0) return 0;
  const bool comes = churn.refill_s > 0 && std::isfinite(churn.refill_s);
  std::vector<double> f(static_cast<size_t>(std::max(live, planned)));
  for (int i = 0; i < kSteps; ++i) {
    Step(churn.departures_per_s, comes ? 1 / churn.refill_s : 0, horizon_s / kSteps, f);
  }
  return f[static_cast<size_t>(live - 1)];
}

double ExpectedLossSeconds(const PipelinePlan& plan, const Churn& churn, double horizon_s,
                           double lost_s) {
  if (churn.departures_per_s <= 0) return 0;
  PipelinePlan joined = plan;
  joined.joining.clear();
  double loss_s = 0;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const auto live = static_cast<int64_t>(LiveReplicas(joined, static_cast<int32_t>(i)).size());
    if (live == 0) continue;
    const auto planned = static_cast<int64_t>(plan.stages[i].replicas.size());
    loss_s +=
        LossProbability(live, planned, churn, horizon_s) * lost_s * (i == 0 ? 1 : kLaterStageShare);
  }
  return loss_s;
}

}  // namespace skerry
