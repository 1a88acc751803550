#include "pipeline/plan/explain.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace skerry {
namespace {

std::string StageLine(const PipelinePlan& plan, size_t stage, const PlanFigures& figures,
                      size_t first_slot) {
  const StageAssignment& assignment = plan.stages[stage];
  std::vector<std::string> nodes;
  for (size_t r = 0; r < assignment.replicas.size(); ++r) {
    const double busy = figures.evaluation.busy_s[first_slot + r];
    nodes.push_back(absl::StrFormat("%s (busy %.0f %%%s)", assignment.replicas[r].Short(),
                                    100 * busy / figures.evaluation.step_s,
                                    PutOffText(figures.holds[first_slot + r])));
  }
  return absl::StrFormat("stage %d: layers %d-%d%s on %s\n", stage, assignment.first_layer,
                         assignment.last_layer - 1, stage == 0 ? ", embedding and head" : "",
                         absl::StrJoin(nodes, ", "));
}

std::string LinkLine(const LinkMatrix& links) {
  int32_t suspect = 0;
  int32_t assumed = 0;
  std::string first;
  for (int32_t i = 0; i < links.size(); ++i) {
    for (int32_t j = 0; j < links.size(); ++j) {
      if (i == j) continue;
      const LinkEstimate& link = links.At(i, j);
      if (link.suspect && ++suspect == 1) {
        const auto name = [&](int32_t k) { return links.nodes()[static_cast<size_t>(k)].Short(); };
        first = name(i) + " -> " + name(j);
      } else if (!link.suspect && link.source != LinkSource::kMeasured) {
        ++assumed;
      }
    }
  }
  std::string line;
  if (suspect > 0) {
    line += absl::StrFormat("%d links read unlike all others (first: %s) and were not believed\n",
                            suspect, first);
  }
  if (assumed > 0) line += absl::StrFormat("%d links were not measured and are assumed\n", assumed);
  return line;
}

std::string SlowLinkLine(const PipelinePlan& plan, const PlanFigures& figures) {
  if (plan.slow_links.empty()) return "";
  return absl::StrFormat(
      "%d links limit by their bytes: compressed activations there make a step %.3f s, not %.3f "
      "s\n",
      plan.slow_links.size(), figures.evaluation.step_s, figures.plain_step_s);
}

std::string CohortLine(const PipelinePlan& plan, const RunConfig& config,
                       const PlanFigures& figures) {
  const auto replicas = static_cast<int32_t>(figures.evaluation.busy_s.size());
  const bool any = std::any_of(plan.stages.begin(), plan.stages.end(),
                               [](const auto& stage) { return !stage.cohorts.empty(); });
  if (!any) return "";
  const std::string sums =
      config.cluster.overlap_steps > 0
          ? absl::StrFormat("a step's sums of gradients take %.3f s", figures.ring_s)
          : absl::StrFormat("a step waits %.3f s for sums of gradients", figures.ring_s);
  return absl::StrFormat("cohorts: %d of %d replicas speak in outer rounds; %s\n", figures.speakers,
                         replicas, sums);
}

// Who shares a line, of lines that several share.
std::string LinesText(const LinkMatrix& links) {
  std::map<int32_t, std::vector<std::string>> sharing;
  for (int32_t node = 0; node < links.size(); ++node) {
    const int32_t line = links.LineOf(node);
    if (line >= 0) sharing[line].push_back(links.nodes()[static_cast<size_t>(node)].Short());
  }
  std::string text;
  for (const auto& [line, nodes] : sharing) {
    if (nodes.size() < 2) continue;
    text += absl::StrFormat("%s share one line to the others, of %.1f Mbit/s\n",
                            absl::StrJoin(nodes, ", "), links.LineRate(line) * 8e-6);
  }
  return text;
}

size_t LongestPath(const PipelinePlan& plan) {
  size_t longest = 0;
  for (const Path& path : plan.paths) longest = std::max(longest, path.size());
  return longest;
}

}  // namespace

std::string ExplainPlan(const PipelinePlan& plan, const RunConfig& config, const LinkMatrix& links,
                        const PlanFigures& figures) {
  const Evaluation& evaluation = figures.evaluation;
  std::string text = absl::StrFormat(
      "%d stages, %d paths of up to %d stages (skip ratio %.2f), %d microbatches a step, %d in "
      "flight per stage-0 node\n",
      plan.stages.size(), plan.paths.size(), LongestPath(plan), config.pipeline.skip_ratio,
      plan.microbatches_per_step, config.pipeline.in_flight);
  size_t slot = 0;
  std::string critical;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    text += StageLine(plan, stage, figures, slot);
    for (const NodeId& node : plan.stages[stage].replicas) {
      if (static_cast<int32_t>(slot++) == evaluation.critical_slot) critical = node.Short();
    }
  }
  const auto any = [&](const auto& is) {
    return std::any_of(figures.holds.begin(), figures.holds.end(), is);
  };
  if (any([](const StageHolds& holds) { return holds.recomputed > 0; })) {
    text +=
        "of a recomputed layer a node keeps the input only, and repeats its forward pass on the "
        "way back: its memory holds no more\n";
  }
  if (any([](const StageHolds& holds) { return holds.offloads; })) {
    text +=
        "with its optimizer on the host a node keeps moments in the computer's memory, whose "
        "processor makes the steps: the GPU's holds no more\n";
  }
  if (any([](const StageHolds& holds) { return holds.parked > 0; })) {
    text +=
        "of parked stashes a node keeps the activations in its computer's memory or on the disk "
        "that "
        "it offers, until the microbatch comes back: its memory holds no more\n";
  }
  if (!figures.batch.empty()) {
    text += "the planner chose " + figures.batch;
  }
  const double total = evaluation.step_s + figures.outer_s();
  const double busiest = evaluation.busy_s[static_cast<size_t>(evaluation.critical_slot)];
  text += absl::StrFormat("a step takes %.3f s; %s computes most: %.3f s of it\n", total, critical,
                          busiest);
  if (figures.held_up_s > figures.exposed_s) {
    text += absl::StrFormat(
        "of that, %.3f s are outer rounds: while they are hidden they take part of the lines\n",
        figures.held_up_s);
  } else if (figures.exposed_s > 0) {
    text += absl::StrFormat("of that, %.3f s are outer traffic that %d overlap steps do not hide\n",
                            figures.exposed_s, config.outer.overlap_steps);
  }
  text += CohortLine(plan, config, figures);
  text += absl::StrFormat("outer rounds%s: %s%s\n", figures.outer_was_open ? ", chosen" : "",
                          ModeText(config.outer), OuterText(figures.outer));
  text += SlowLinkLine(plan, figures);
  text += absl::StrFormat(
      "lower bounds: %.3f s for this placement, %.3f s for any; the first of %d placements tried "
      "took %.3f s\n",
      figures.placement_bound_s, figures.any_bound_s, figures.evaluations, figures.first_s);
  return text + LinkLine(links) + LinesText(links);
}

}  // namespace skerry
