#include "pipeline/plan/reducer_shares.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "pipeline/plan/cohorts.h"

namespace skerry {
namespace {

constexpr double kShareMax = 16;

bool AreTogether(const StageAssignment& stage, size_t a, size_t b) {
  return a == b || (!stage.cohorts.empty() && stage.cohorts[a] == stage.cohorts[b]);
}

// 0: not known. `slot` is one of the stage's; of a cohort all members' links are read, as its room
// has one uplink as a rule, and one member's few readings are off by more than a share.
double UplinkOf(size_t slot, const StageAssignment& stage, const LinkMatrix& links) {
  std::vector<double> rates;
  for (size_t member = 0; member < stage.replicas.size(); ++member) {
    if (!AreTogether(stage, slot, member)) continue;
    for (size_t other = 0; other < stage.replicas.size(); ++other) {
      if (AreTogether(stage, slot, other)) continue;
      const int32_t from = links.IndexOf(stage.replicas[member]);
      const int32_t to = links.IndexOf(stage.replicas[other]);
      if (from < 0 || to < 0 || !links.At(from, to).usable()) return 0;
      rates.push_back(links.At(from, to).bytes_per_s);
    }
  }
  std::sort(rates.begin(), rates.end());
  return rates.empty() ? 0 : rates[rates.size() / 2];
}

// Empty: all are alike, or not known.
std::vector<int32_t> SharesOf(const StageAssignment& stage, const LinkMatrix& links) {
  std::vector<double> uplinks;
  for (size_t slot = 0; slot < stage.replicas.size(); ++slot)
    uplinks.push_back(UplinkOf(slot, stage, links));
  const auto [slowest, fastest] = std::minmax_element(uplinks.begin(), uplinks.end());
  if (*slowest <= 0) return {};
  const auto share = [least = *slowest](double uplink) {
    const double ratio = std::exp2(std::round(std::log2(uplink / least)));
    return static_cast<int32_t>(std::min(ratio, kShareMax));
  };
  std::vector<int32_t> shares;
  if (share(*fastest) == 1) return shares;
  for (const double uplink : uplinks) shares.push_back(share(uplink));
  return shares;
}

}  // namespace

OuterReduce ReduceOf(const RunConfig& config, bool spreads) {
  const bool asks = config.cluster.is_on() && config.outer.reduce == OuterReduce::kAuto;
  return asks && !spreads ? OuterReduce::kAll : config.outer.reduce;
}

void SetShares(const RunConfig& config, const LinkMatrix& links, PipelinePlan* plan) {
  OuterConfig outer = config.outer;
  outer.reduce = ReduceOf(config, plan->settings.spreads);
  const bool by_speakers = config.cluster.is_on() && outer.reduce == OuterReduce::kAuto;
  for (size_t s = 0; s < plan->stages.size(); ++s) {
    StageAssignment& stage = plan->stages[s];
    stage.shares.clear();
    const size_t parties =
        by_speakers ? SpeakersAmong(*plan, static_cast<int32_t>(s), stage.replicas).size()
                    : stage.replicas.size();
    if (!IsSharded(outer, static_cast<int64_t>(parties))) continue;
    stage.shares = SharesOf(stage, links);
    if (by_speakers && stage.shares.empty()) stage.shares.assign(stage.replicas.size(), 1);
  }
}

}  // namespace skerry
