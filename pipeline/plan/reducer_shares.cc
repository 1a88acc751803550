#include "pipeline/plan/reducer_shares.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace skerry {
namespace {

constexpr double kShareMax = 16;

// 0: not known.
double UplinkOf(const NodeId& node, const std::vector<NodeId>& replicas, const LinkMatrix& links) {
  std::vector<double> rates;
  for (const NodeId& other : replicas) {
    const int32_t from = links.IndexOf(node), to = links.IndexOf(other);
    if (from == to) continue;
    if (from < 0 || to < 0 || !links.At(from, to).usable()) return 0;
    rates.push_back(links.At(from, to).bytes_per_s);
  }
  std::sort(rates.begin(), rates.end());
  return rates.empty() ? 0 : rates[rates.size() / 2];
}

}  // namespace

void SetShares(const OuterConfig& outer, const LinkMatrix& links, PipelinePlan* plan) {
  for (StageAssignment& stage : plan->stages) {
    stage.shares.clear();
    if (!IsSharded(outer, static_cast<int64_t>(stage.replicas.size()))) continue;
    std::vector<double> uplinks;
    for (const NodeId& node : stage.replicas) {
      uplinks.push_back(UplinkOf(node, stage.replicas, links));
    }
    const auto [slowest, fastest] = std::minmax_element(uplinks.begin(), uplinks.end());
    if (*slowest <= 0) continue;
    const auto share = [least = *slowest](double uplink) {
      const double ratio = std::exp2(std::round(std::log2(uplink / least)));
      return static_cast<int32_t>(std::min(ratio, kShareMax));
    };
    if (share(*fastest) == 1) continue;
    for (const double uplink : uplinks) stage.shares.push_back(share(uplink));
  }
}

}  // namespace skerry
