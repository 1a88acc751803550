#include "pipeline/plan/slow_links.h"

#include <algorithm>
#include <utility>

#include "routing/critical_path.h"

namespace skerry {
namespace {

// How many links may join in vain before the search gives up.
size_t PatienceFor(const Workload& workload) {
  return 2 * static_cast<size_t>(workload.slots());
}

// The link of the critical path on which bytes take longest and that is not listed; {0, 0}: none.
SlotLink Slowest(const StepParts& parts, const std::vector<SlotLink>& listed) {
  SlotLink slowest;
  double most = 0;
  for (const StepParts::Share& share : parts.largest) {
    const SlotLink link{share.from_slot, share.to_slot};
    if (share.wire_s <= most || std::find(listed.begin(), listed.end(), link) != listed.end()) {
      continue;
    }
    slowest = link;
    most = share.wire_s;
  }
  return slowest;
}

class Search {
 public:
  Search(const Workload& workload, const Fleet& plain, const Placement& placement, double share,
         Lines lines)
      : workload_(workload),
        placement_(placement),
        share_(share),
        fleet_(plain),
        evaluator_(workload, fleet_, lines) {
    fleet_.share.assign(fleet_.wire_s.size(), 1);
  }

  std::vector<SlotLink> Run() {
    std::vector<SlotLink> listed;
    size_t worth = 0;  // so many of them, in order, make the step shorter
    double best = evaluator_.StepSeconds(placement_);
    const size_t patience = PatienceFor(workload_);
    while (listed.size() - worth < patience) {
      const auto records = evaluator_.Trace(placement_);
      const SlotLink link = Slowest(PartsOf(workload_, fleet_, placement_, records), listed);
      if (link.from == link.to) break;
      Set(link, share_);
      listed.push_back(link);
      const double step_s = evaluator_.StepSeconds(placement_);
      if (step_s > best * (1 - kSlowLinkGainMin)) continue;
      best = step_s;
      worth = listed.size();
    }
    for (size_t i = worth; i < listed.size(); ++i) Set(listed[i], 1);
    listed.resize(worth);
    Drop(best, &listed);
    std::sort(listed.begin(), listed.end());
    return listed;
  }

 private:
  void Set(const SlotLink& link, double share) {
    const size_t pair = fleet_.Pair(placement_[static_cast<size_t>(link.from)],
                                    placement_[static_cast<size_t>(link.to)]);
    fleet_.share[pair] = share;
  }

  // Without all of those that go together, the step is at most kSlowLinkGainMin / 2 longer.
  void Drop(double best, std::vector<SlotLink>* listed) {
    double last = best;
    for (size_t i = listed->size(); i-- > 0;) {
      const SlotLink link = (*listed)[i];
      Set(link, 1);
      const double step_s = evaluator_.StepSeconds(placement_);
      if (step_s <= last * (1 + kSlowLinkWorth) && step_s <= best * (1 + kSlowLinkGainMin / 2)) {
        last = std::max(last, step_s);
        listed->erase(listed->begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        Set(link, share_);
      }
    }
  }

  const Workload& workload_;
  const Placement& placement_;
  double share_;
  Fleet fleet_;  // with shares on the listed links
  Evaluator evaluator_;
};

}  // namespace

double SlowLinkShare(const RunConfig& config) {
  return DeltaBitsPerValue(config.pipeline.slow_link_codec) / DeltaBitsPerValue(DeltaCodec::kNone);
}

Fleet WithSlowLinks(Fleet fleet, const Placement& placement, const std::vector<SlotLink>& links,
                    double share) {
  if (fleet.share.empty()) fleet.share.assign(fleet.wire_s.size(), 1);
  for (const SlotLink& link : links) {
    fleet.share[fleet.Pair(placement[static_cast<size_t>(link.from)],
                           placement[static_cast<size_t>(link.to)])] = share;
  }
  return fleet;
}

std::vector<SlotLink> ChooseSlowLinks(const Workload& workload, const Fleet& fleet,
                                      const Placement& placement, double share, Lines lines) {
  if (share >= 1 || workload.slots() < 2) return {};
  return Search(workload, fleet, placement, share, lines).Run();
}

}  // namespace skerry
