#include "sim/plan_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "model/file_io.h"
#include "pipeline/plan/node_memory.h"
#include "sim/plan_cohorts.h"
#include "sim/plan_gantt.h"

namespace skerry {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kPathsShown = 6;
constexpr size_t kLimitsShown = 3;
constexpr size_t kLinksShown = 6;

// Microbatches a step sends through each slot.
std::vector<double> Loads(const Workload& workload) {
  std::vector<double> loads(static_cast<size_t>(workload.slots()));
  for (const Workload::Microbatch& microbatch : workload.microbatches) {
    for (const int32_t slot : microbatch.slots) {
      loads[static_cast<size_t>(slot)] += 1.0 / workload.steps;
    }
  }
  return loads;
}

std::string SlotName(const PlanComparison& comparison, const ShownPlan& shown, int32_t slot) {
  const std::vector<NodeId>& nodes = comparison.topology.input.nodes;
  const auto at = std::lower_bound(nodes.begin(), nodes.end(), shown.NodeOf(slot));
  const auto index = static_cast<size_t>(at - nodes.begin());
  return absl::StrFormat("%d (%s)", index + 1, comparison.topology.regions[index]);
}

// What a node of a stage holds at least.
struct StageFit {
  MemoryOffer offer;
  StageHolds holds;
  NodeMemory memory;
};

StageFit FitOf(const PlanComparison& comparison, int32_t stage, const NodeId& node) {
  const PlannerInput& input = comparison.topology.input;
  const RunConfig settled = Settled(input.config, comparison.plan);
  const StageAssignment& assignment = comparison.plan.stages[static_cast<size_t>(stage)];
  const int32_t layers = assignment.last_layer - assignment.first_layer;
  const auto first = static_cast<int32_t>(comparison.plan.stages[0].replicas.size());
  const auto replicas = static_cast<int32_t>(assignment.replicas.size());
  StageFit fit{OfferOf(input.devices.at(node)), {}, {}};
  fit.holds = FittedHolds(settled, layers, stage == 0,
                          HoldsOf(settled, first, replicas, stage == 0), fit.offer);
  fit.memory = MemoryIn(settled, layers, stage == 0, fit.holds, fit.offer);
  return fit;
}

// Of its node with the least memory.
StageFit TightestOf(const PlanComparison& comparison, int32_t stage) {
  const PlannerInput& input = comparison.topology.input;
  const RunConfig settled = Settled(input.config, comparison.plan);
  const auto& replicas = comparison.plan.stages[static_cast<size_t>(stage)].replicas;
  const auto worth = [&](const NodeId& node) {
    const int64_t bytes = WorthOf(settled, OfferOf(input.devices.at(node)));
    return bytes == 0 ? INT64_MAX : bytes;
  };
  return FitOf(
      comparison, stage,
      *std::min_element(replicas.begin(), replicas.end(),
                        [&](const NodeId& a, const NodeId& b) { return worth(a) < worth(b); }));
}

std::string TightestText(const StageFit& fit) {
  const auto of = [](const char* where, const StageMemory& memory) {
    return absl::StrFormat("  memory%s: %s, with a margin of %.0f %% %s: %s\n", where,
                           BytesText(memory.total()), 100 * kMemoryMargin,
                           BytesText(memory.needed()), PartsText(memory));
  };
  std::string text = of(" of each", fit.memory.each);
  if (fit.offer.HasHost()) text += of(" of its host", fit.memory.host);
  if (fit.holds.recomputed > 0) {
    text += absl::StrFormat(
        "  of %d of its layers only the input is kept, and computed from again on the way back\n",
        fit.holds.recomputed);
  }
  if (fit.holds.parked > 0) {
    text += absl::StrFormat(
        "  the stashes of %d of its microbatches are %s, until they come back\n", fit.holds.parked,
        fit.offer.HasHost() && !fit.holds.on_disk ? "on the host" : "on disk");
  }
  if (fit.holds.offloads) text += "  the optimizer's state is on the host, which makes its steps\n";
  return text;
}

std::string StageText(const PlanComparison& comparison, const ShownPlan& own) {
  const Workload& workload = own.model.problem.workload;
  const std::vector<double> loads = Loads(workload);
  std::string text;
  int32_t slot = 0;
  for (size_t stage = 0; stage < comparison.plan.stages.size(); ++stage) {
    const StageAssignment& assignment = comparison.plan.stages[stage];
    text += absl::StrFormat("stage %d: layers %d-%d%s\n", stage, assignment.first_layer,
                            assignment.last_layer - 1, stage == 0 ? ", embedding and head" : "");
    for (size_t r = 0; r < assignment.replicas.size(); ++r, ++slot) {
      const auto i = static_cast<size_t>(slot);
      const StageFit fit = FitOf(comparison, static_cast<int32_t>(stage), assignment.replicas[r]);
      text += absl::StrFormat("  node %-20s %6.2f microbatches a step, computes %3.0f %%, %s\n",
                              SlotName(comparison, own, slot), loads[i],
                              100 * own.evaluation.busy_s[i] / own.step_s(),
                              NeedText(fit.memory, fit.offer));
    }
    text += TightestText(TightestOf(comparison, static_cast<int32_t>(stage)));
  }
  return text;
}

std::string PathText(const PlanComparison& comparison) {
  std::string text;
  for (size_t p = 0; p < std::min(kPathsShown, comparison.plan.paths.size()); ++p) {
    std::vector<std::string> hops;
    for (const Slot& slot : comparison.plan.paths[p]) {
      hops.push_back(absl::StrFormat("%d.%d", slot.stage, slot.replica));
    }
    text += absl::StrFormat("%s%s", p == 0 ? "" : "   ", absl::StrJoin(hops, "-"));
  }
  return absl::StrFormat("paths (stage.replica), %d of them in turn: %s …\n",
                         comparison.plan.paths.size(), text);
}

std::string LimitText(const PlanComparison& comparison, const ShownPlan& own) {
  std::string text = "what limits it, seconds of a step:";
  for (size_t i = 0; i < std::min(kLimitsShown, own.parts.largest.size()); ++i) {
    const StepParts::Share& share = own.parts.largest[i];
    const std::string from = SlotName(comparison, own, share.from_slot);
    text +=
        share.from_slot == share.to_slot
            ? absl::StrFormat("%s %.3f node %s computing", i == 0 ? "" : ",", share.seconds, from)
            : absl::StrFormat("%s %.3f link %s to %s", i == 0 ? "" : ",", share.seconds, from,
                              SlotName(comparison, own, share.to_slot));
  }
  return text + "\n";
}

int64_t NumberOf(const PlanComparison& comparison, const NodeId& id) {
  const std::vector<NodeId>& nodes = comparison.topology.input.nodes;
  return std::lower_bound(nodes.begin(), nodes.end(), id) - nodes.begin() + 1;
}

std::string OuterAndLinksText(const PlanComparison& comparison, const ShownPlan& own) {
  std::string text =
      absl::StrFormat("outer rounds%s: %s\n", comparison.outer_was_open ? ", chosen" : "",
                      OuterText(comparison.outer));
  const auto& links = comparison.plan.slow_links;
  if (links.empty()) return text;
  std::vector<std::string> names;
  for (const SlowLink& link : links) {
    if (names.size() == kLinksShown) {
      names.push_back("…");
      break;
    }
    names.push_back(absl::StrFormat("%d to %d", NumberOf(comparison, link.from),
                                    NumberOf(comparison, link.to)));
  }
  return text +
         absl::StrFormat("activations as %s on %d links (%s): %.3f s, not %.3f s\n",
                         CodecName(comparison.topology.input.config.pipeline.slow_link_codec),
                         links.size(), absl::StrJoin(names, ", "), own.evaluation.step_s,
                         comparison.plain_step_s);
}

Json OuterJson(const OuterChoice& outer, bool chosen) {
  return {{"inner_steps", outer.inner_steps}, {"overlap_steps", outer.overlap_steps},
          {"codec", CodecName(outer.codec)},  {"chosen", chosen},
          {"sent_bytes", outer.sent_bytes},   {"transfer_s", outer.transfer_s},
          {"uplink_free", outer.uplink_free}, {"hidden", outer.IsHidden()}};
}

double Gap(const PlanComparison& comparison) {
  return comparison.plans.front().step_s() / comparison.lower_bound_s - 1;
}

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '<') {
      escaped += "&lt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

Json NodeJson(const PlanComparison& comparison, const ShownPlan& own, const StageFit& fit,
              int32_t slot, double load) {
  const PlacementProblem& problem = own.model.problem;
  const auto i = static_cast<size_t>(slot);
  const auto node = static_cast<size_t>(own.model.placement[i]);
  const std::vector<NodeId>& nodes = comparison.topology.input.nodes;
  const auto index = static_cast<size_t>(
      std::lower_bound(nodes.begin(), nodes.end(), own.NodeOf(slot)) - nodes.begin());
  return {{"node", index + 1},
          {"region", comparison.topology.regions[index]},
          {"gflops", problem.fleet.gflops[node]},
          {"load", load},
          {"busy_s", own.evaluation.busy_s[i]},
          {"memory_bytes", fit.offer.device_bytes},
          {"needs_bytes", fit.memory.each.needed()},
          {"host_memory_bytes", fit.offer.host_bytes},
          {"host_needs_bytes", fit.memory.host.needed()},
          {"spill_bytes", fit.offer.spill_bytes},
          {"spill_needs_bytes", fit.memory.spill}};
}

Json PartsJson(const StageMemory& memory) {
  return {{"weights_bytes", memory.weights},     {"gradients_bytes", memory.gradients},
          {"optimizer_bytes", memory.optimizer}, {"outer_bytes", memory.outer},
          {"sums_bytes", memory.sums},           {"deltas_bytes", memory.codec},
          {"stash_bytes", memory.stash},         {"buffers_bytes", memory.buffers},
          {"workspace_bytes", memory.workspace}, {"total_bytes", memory.total()},
          {"handover_bytes", memory.handover},   {"checkpoint_bytes", memory.checkpoint}};
}

Json MemoryJson(const PlanComparison& comparison, int32_t stage) {
  const StageFit fit = TightestOf(comparison, stage);
  Json json = PartsJson(fit.memory.each);
  json["recomputed_layers"] = fit.holds.recomputed;
  json["offloaded"] = fit.holds.offloads;
  json["parked_stashes"] = fit.holds.parked;
  json["margin"] = kMemoryMargin;
  if (fit.offer.HasHost()) json["host"] = PartsJson(fit.memory.host);
  return json;
}

}  // namespace

ExpectedTokens ExpectedOf(const PlanComparison& comparison) {
  constexpr double kDaySeconds = 86'400;
  const RunConfig run = Settled(comparison.topology.input.config, comparison.plan);
  const double step_s = comparison.plans.front().step_s();
  ExpectedTokens expected;
  expected.a_step = int64_t{run.pipeline.microbatches_per_step} *
                    run.pipeline.sequences_per_microbatch * run.model.context;
  expected.a_day = static_cast<double>(expected.a_step) * kDaySeconds / step_s;
  expected.days = static_cast<double>(run.steps) * step_s / kDaySeconds;
  return expected;
}

std::string PlanText(const PlanComparison& comparison) {
  const ShownPlan& own = comparison.plans.front();
  std::string text =
      absl::StrFormat("%s: %d nodes, %d stages\n", comparison.name,
                      comparison.topology.input.nodes.size(), comparison.plan.stages.size());
  text += StageText(comparison, own) + PathText(comparison);
  text += absl::StrFormat("%-10s %9s %9s %9s %9s %9s %9s %9s\n", "strategy", "step s", "compute",
                          "latency", "bytes", "waiting", "outer", "planned s");
  for (const ShownPlan& shown : comparison.plans) {
    text += absl::StrFormat("%-10s %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f %9.2f  %s\n", shown.strategy,
                            shown.step_s(), shown.parts.computing_s, shown.parts.latency_s,
                            shown.parts.wire_s, shown.parts.waiting_s, shown.outer_s(),
                            shown.plan_s, shown.note);
  }
  for (const std::string& failed : comparison.failed) text += "no plan: " + failed + "\n";
  text += absl::StrFormat("at best    %9.3f: gap %.1f %% (%.3f for this placement)\n",
                          comparison.lower_bound_s, 100 * Gap(comparison), own.bound_s);
  const ExpectedTokens expected = ExpectedOf(comparison);
  text +=
      absl::StrFormat("expected: %.3f billion tokens a day, %d a step; all steps in %.1f days\n",
                      1e-9 * expected.a_day, expected.a_step, expected.days);
  return text + LimitText(comparison, own) + OuterAndLinksText(comparison, own) +
         PlannedCohortsText(comparison);
}

std::string PlanJson(const PlanComparison& comparison) {
  const ShownPlan& own = comparison.plans.front();
  Json json = {{"name", comparison.name},
               {"nodes", comparison.topology.input.nodes.size()},
               {"lower_bound_s", comparison.lower_bound_s},
               {"gap", Gap(comparison)}};
  const std::vector<double> loads = Loads(own.model.problem.workload);
  int32_t slot = 0;
  for (const StageAssignment& stage : comparison.plan.stages) {
    Json nodes = Json::array();
    const auto index = static_cast<int32_t>(json["stages"].size());
    for (const NodeId& node : stage.replicas) {
      nodes.push_back(NodeJson(comparison, own, FitOf(comparison, index, node), slot,
                               loads[static_cast<size_t>(slot)]));
      ++slot;
    }
    json["stages"].push_back({{"first_layer", stage.first_layer},
                              {"last_layer", stage.last_layer},
                              {"nodes", nodes},
                              {"memory", MemoryJson(comparison, index)}});
  }
  for (const Path& path : comparison.plan.paths) {
    Json hops = Json::array();
    for (const Slot& hop : path) hops.push_back({{"stage", hop.stage}, {"replica", hop.replica}});
    json["paths"].push_back(hops);
  }
  for (const ShownPlan& shown : comparison.plans) {
    json["plans"].push_back({{"strategy", shown.strategy},
                             {"step_s", shown.step_s()},
                             {"computing_s", shown.parts.computing_s},
                             {"latency_s", shown.parts.latency_s},
                             {"wire_s", shown.parts.wire_s},
                             {"waiting_s", shown.parts.waiting_s},
                             {"ring_s", shown.ring_s},
                             {"exposed_s", shown.exposed_s},
                             {"held_up_s", shown.held_up_s},
                             {"placement_bound_s", shown.bound_s},
                             {"plan_s", shown.plan_s},
                             {"note", shown.note}});
  }
  json["outer"] = OuterJson(comparison.outer, comparison.outer_was_open);
  json["slow_links"] = Json::array();
  for (const SlowLink& link : comparison.plan.slow_links) {
    json["slow_links"].push_back(
        {{"from", NumberOf(comparison, link.from)}, {"to", NumberOf(comparison, link.to)}});
  }
  json["plain_step_s"] = comparison.plain_step_s;
  json["cohorts"] = PlannedCohortsJson(comparison);
  const ExpectedTokens expected = ExpectedOf(comparison);
  json["tokens_per_step"] = expected.a_step;
  json["tokens_per_day"] = expected.a_day;
  json["days"] = expected.days;
  json["failed"] = comparison.failed;
  return json.dump();
}

absl::Status WritePlanPage(const PlanComparison& comparison, const std::string& file) {
  std::string page =
      "<!doctype html><meta charset=\"utf-8\"><title>Plan of " + Escaped(comparison.name) +
      "</title><style>body{font:14px system-ui;margin:2em;max-width:1200px}pre{overflow-x:auto}"
      "svg{max-width:100%}</style>\n<h1>Plan of " +
      Escaped(comparison.name) + "</h1>\n<pre>" + Escaped(PlanText(comparison)) + "</pre>\n";
  for (const ShownPlan& shown : comparison.plans) {
    std::vector<std::string> names;
    for (int32_t slot = 0; slot < shown.model.problem.workload.slots(); ++slot) {
      names.push_back(Escaped(SlotName(comparison, shown, slot)));
    }
    page += "<h2>" + Escaped(shown.strategy) + "</h2>\n" + GanttSvg(shown, names);
  }
  return ReplaceText(file, page);
}

}  // namespace skerry
