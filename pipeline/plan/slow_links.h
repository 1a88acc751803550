// Which links of a plan limit its step by their bytes: only there activations and gradients are
// compressed (PipelineConfig::slow_link_codec), the others stay exact.
//
// FusionLLM (Tang et al. 2024) compresses by edge, the slowest ones only. Here: the link with the
// most byte time on the critical path joins the list, as long as that makes the predicted step
// shorter; ways that are equally slow take turns on the critical path, so several may have to join
// before it does. At last those leave again without which the step is as short.
//
// Pure and deterministic.
#pragma once

#include <cstdint>
#include <vector>

#include "common/run_config.h"
#include "routing/evaluator.h"

namespace skerry {

// A directed link between the nodes of two slots.
struct SlotLink {
  int32_t from = 0;
  int32_t to = 0;
  auto operator<=>(const SlotLink&) const = default;
};

// A list goes on growing if it shortens the step by so much, and a link stays on it that does.
inline constexpr double kSlowLinkGainMin = 0.01;
inline constexpr double kSlowLinkWorth = 0.001;

// What a boundary payload shrinks to on a slow link; 1: the run compresses nowhere.
double SlowLinkShare(const RunConfig& config);

// The same fleet with byte times of these links, which are between different stages, shrunk. Deltas
// go between nodes of one stage, so they are not touched.
Fleet WithSlowLinks(Fleet fleet, const Placement& placement, const std::vector<SlotLink>& links,
                    double share);

// Sorted; empty if bytes limit nothing, or share is 1. `placement` uses usable links only.
std::vector<SlotLink> ChooseSlowLinks(const Workload& workload, const Fleet& fleet,
                                      const Placement& placement, double share,
                                      Lines lines = Lines::kShared);

}  // namespace skerry
