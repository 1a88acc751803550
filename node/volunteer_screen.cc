#include "node/volunteer_screen.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "common/gauges.h"
#include "common/status.h"
#include "common/terminal.h"

namespace skerry {
namespace {

constexpr std::array<const char*, kTrafficClasses> kClassNames = {"control", "pipeline", "deltas",
                                                                  "state", "data"};

double Sum(const ClassRates& rates) {
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

std::string SizeText(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e9) return absl::StrFormat("%.1f GB", value * 1e-9);
  return absl::StrFormat("%.0f MB", value * 1e-6);
}

std::string Count(int64_t count) {
  const auto value = static_cast<double>(count);
  if (value >= 1e9) return absl::StrFormat("%.2f billion", value * 1e-9);
  if (value >= 1e6) return absl::StrFormat("%.2f million", value * 1e-6);
  return absl::StrFormat("%d", count);
}

std::string Time(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return absl::StrFormat("%d s", whole);
  if (whole < 3600) return absl::StrFormat("%d min %d s", whole / 60, whole % 60);
  return absl::StrFormat("%d h %d min", whole / 3600, whole / 60 % 60);
}

double Share(const VolunteerView& view) {
  return view.standing.tokens_of_all > 0 ? static_cast<double>(view.standing.tokens) /
                                               static_cast<double>(view.standing.tokens_of_all)
                                         : 0;
}

int64_t StepsToRound(const NodeLook& look) {
  return look.inner_steps > 0 ? look.inner_steps - look.step % look.inner_steps : 0;
}

std::string RoundText(const VolunteerView& view) {
  const NodeLook& look = view.look;
  if (look.stage < 0 || look.inner_steps <= 0) return "none yet";
  const int64_t left = StepsToRound(look);
  std::string text = absl::StrFormat("%d done; the next ends in %d step%s", look.base_version, left,
                                     left == 1 ? "" : "s");
  if (view.standing.step_s > 0) {
    text += ", about " + Time(static_cast<double>(left) * view.standing.step_s);
  }
  return text;
}

// "stage 2 (of 0 to 3), layers 4 to 5; 2 replicas"
std::string PartText(const NodeLook& look) {
  if (look.stage < 0) return "none";
  return absl::StrFormat("stage %d (of 0 to %d), layers %d to %d; %d replica%s", look.stage,
                         look.stages - 1, look.first_layer, look.last_layer - 1, look.replicas,
                         look.replicas == 1 ? "" : "s");
}

std::string MemoryText(int64_t held, int64_t offered) {
  return absl::StrFormat("%s held, %s offered", SizeText(held), SizeText(offered));
}

std::string NetworkText(const VolunteerView& view) {
  const NodeLook& look = view.look;
  if (look.awaits_approval) return "not looked at before the node is let in";
  if (look.run.empty()) return "the coordinator has not answered yet";
  const auto direct = std::max(look.peers - view.relayed - view.punched, 0);
  std::string text =
      absl::StrFormat("%s; %d other%s directly, %d through a relay",
                      look.is_reachable ? "can be dialled" : "cannot be dialled: it dials", direct,
                      direct == 1 ? "" : "s", view.relayed);
  if (view.punched > 0) text += absl::StrFormat(", %d through both routers", view.punched);
  return text;
}

std::string RatesHead() {
  std::string heads = absl::StrFormat("  %-11s %8s", "Mbit/s", "all");
  for (const char* name : kClassNames) heads += absl::StrFormat(" %9s", name);
  return heads;
}

std::string RatesLine(const char* name, const ClassRates& rates) {
  std::string line = absl::StrFormat("  %-11s %8.2f", name, Sum(rates));
  for (const double rate : rates) line += absl::StrFormat(" %9.2f", rate);
  return line;
}

std::string Row(const char* name, const std::string& text) {
  return absl::StrFormat("  %-11s %s", name, text);
}

std::string SilenceText(const VolunteerView& view) {
  if (view.coordinator_silent_s <= 0) return "";
  return absl::StrFormat(" (the coordinator has said nothing for %.0f s)",
                         view.coordinator_silent_s);
}

}  // namespace

std::string PhaseText(const VolunteerView& view) {
  if (!view.resting.empty()) return "rests: " + view.resting;
  const NodeLook& look = view.look;
  if (look.is_paused) return "the run is paused by its operator; nothing is lost";
  switch (look.phase) {
    case Phase::kJoining:
      return look.awaits_approval ? "joining: asked, and the operator has not decided yet"
                                  : "joining: asks the coordinator to be let in";
    case Phase::kMeasuring:
      return "the ways to the other nodes are measured";
    case Phase::kWaitingForPlan:
      return "is here; the coordinator gathers nodes, measures their links and plans";
    case Phase::kFetchingData:
      return "fetches what it needs and builds its part of the model";
    case Phase::kTraining:
    case Phase::kWaitingForRound:
    case Phase::kWaitingForPeers:
      return "trains" + (look.waiting_for.empty() ? SilenceText(view) : "");
    case Phase::kFinished:
      return "has finished; the coordinator collects the model";
    case Phase::kStandby:
      return "stands by: takes a place as soon as one is free";
    case Phase::kCatchingUp:
      return "has its part of the model and catches up with the others";
  }
  return "";
}

std::string WaitText(const VolunteerView& view) {
  if (!view.resting.empty()) return "";
  if (!view.look.waiting_for.empty()) return view.look.waiting_for + SilenceText(view);
  if (view.look.phase == Phase::kWaitingForPlan) return "the plan";
  if (view.look.phase == Phase::kStandby) return "a free place";
  if (view.look.awaits_approval) return "the operator's approval";
  if (view.look.phase == Phase::kJoining) return "the coordinator's answer";
  return "";
}

std::string ContributionText(const VolunteerView& view) {
  const Standing& standing = view.standing;
  if (standing.tokens == 0) {
    return view.look.tokens > 0 ? "nothing counts yet: work counts when its round is accepted, soon"
                                : "nothing yet";
  }
  return absl::StrFormat("%s tokens (%.1f %%), rank %d of %d, in %d round%s",
                         Count(standing.tokens), 100 * Share(view), standing.rank, standing.nodes,
                         standing.rounds, standing.rounds == 1 ? "" : "s");
}

std::vector<std::string> ScreenLines(const VolunteerView& view, const std::vector<std::string>& log,
                                     int columns, int rows) {
  const NodeLook& look = view.look;
  std::vector<std::string> lines = {
      absl::StrFormat("skerry-node %s  run %s  %s here", view.node,
                      look.run.empty() ? "?" : look.run, Time(view.since_s)),
      ""};
  lines.push_back(Row("now", PhaseText(view)));
  const std::string waits = WaitText(view);
  lines.push_back(Row("waits for", waits.empty() ? "nothing" : waits));
  lines.push_back(Row("step", absl::StrFormat("%d of %d", look.step, look.steps)));
  lines.push_back(Row("round", RoundText(view)));
  lines.push_back(Row("part", PartText(look)));
  lines.push_back(
      Row("device", absl::StrFormat("%.0f %% at work; %s", 100 * view.busy_share, view.device)));
  lines.push_back(Row("memory", MemoryText(look.memory_bytes, look.memory_offered)));
  lines.push_back(Row("contributed", ContributionText(view)));
  lines.push_back("");
  lines.push_back(Row("network", NetworkText(view)));
  lines.push_back(RatesHead());
  lines.push_back(RatesLine("up", view.up));
  lines.push_back(RatesLine("down", view.down));
  lines.push_back(Row("limits", view.limits));
  const std::string keys =
      "  p pause or go on   - + half or twice the limit   0 no limit   q leave";
  const int room = rows - static_cast<int>(lines.size()) - 3;
  if (room > 0 && !log.empty()) {
    lines.push_back("");
    const size_t first = log.size() - std::min(log.size(), static_cast<size_t>(room));
    for (size_t i = first; i < log.size(); ++i) lines.push_back("  " + log[i]);
  }
  if (static_cast<int>(lines.size()) > rows - 1)
    lines.resize(static_cast<size_t>(std::max(rows - 1, 0)));
  while (static_cast<int>(lines.size()) < rows - 1) lines.push_back("");
  if (rows > 0) lines.push_back(keys);
  for (std::string& line : lines) line = CutTo(line, columns);
  return lines;
}

std::string PlainLine(const VolunteerView& view) {
  const std::string waits = WaitText(view);
  return absl::StrFormat(
      "status: %s%s%s; step %d of %d; contributed %s; %.2f Mbit/s up, %.2f down; device %.0f %% at "
      "work",
      PhaseText(view), waits.empty() ? "" : ", waits for " + waits,
      view.look.stage < 0 ? "" : absl::StrFormat("; stage %d", view.look.stage), view.look.step,
      view.look.steps, ContributionText(view), Sum(view.up), Sum(view.down), 100 * view.busy_share);
}

nlohmann::json StatusJson(const VolunteerView& view) {
  const NodeLook& look = view.look;
  nlohmann::json up = nlohmann::json::object(), down = nlohmann::json::object();
  for (size_t i = 0; i < kTrafficClasses; ++i) {
    up[kClassNames[i]] = view.up[i];
    down[kClassNames[i]] = view.down[i];
  }
  return {{"node", view.node},
          {"run", look.run},
          {"device", view.device},
          {"phase", PhaseText(view)},
          {"waits_for", WaitText(view)},
          {"coordinator_silent_s", view.coordinator_silent_s},
          {"resting", view.resting},
          {"run_paused", look.is_paused},
          {"step", look.step},
          {"steps", look.steps},
          {"round", look.base_version},
          {"round_text", RoundText(view)},
          {"stage", look.stage},
          {"stages", look.stages},
          {"part_text", PartText(look)},
          {"device_busy", view.busy_share},
          {"memory_bytes", look.memory_bytes},
          {"memory_offered_bytes", look.memory_offered},
          {"contributed_tokens", view.standing.tokens},
          {"contributed_share", Share(view)},
          {"contributed_text", ContributionText(view)},
          {"rank", view.standing.rank},
          {"of_nodes", view.standing.nodes},
          {"rounds_counted", view.standing.rounds},
          {"up_mbit", Sum(view.up)},
          {"down_mbit", Sum(view.down)},
          {"up_mbit_by_class", up},
          {"down_mbit_by_class", down},
          {"peak_up_mbit", view.peak_up},
          {"peak_down_mbit", view.peak_down},
          {"reachable", look.is_reachable},
          {"network_text", NetworkText(view)},
          {"relayed_peers", view.relayed},
          {"punched_peers", view.punched},
          {"limits", view.limits}};
}

std::string NodeMetrics(const nlohmann::json& status) {
  Gauges metrics("skerry_node_");
  const auto figure = [&](const char* key, const char* name, const char* help) {
    metrics.Figure(status, key, name, help);
  };
  const auto flag = [&](const char* key) { return status.value(key, false) ? 1.0 : 0.0; };
  const auto is_said = [&](const char* key) {
    return status.value(key, std::string()).empty() ? 0.0 : 1.0;
  };
  figure("step", "step", "Inner steps that this node completed.");
  figure("round", "outer_rounds", "Outer rounds of its stage that it applied.");
  figure("stage", "stage", "The stage that it holds; -1: none.");
  figure("device_busy", "device_busy_ratio", "Share of the last seconds that its device worked.");
  figure("memory_bytes", "memory_held_bytes", "The most that its stage has held.");
  figure("memory_offered_bytes", "memory_offered_bytes", "What it offers.");
  figure("contributed_tokens", "contributed_tokens", "Tokens of its deltas that were accepted.");
  figure("rank", "rank", "Its rank among those who contributed; 0: nothing counts yet.");
  figure("rounds_counted", "rounds_counted", "Rounds that its deltas counted in.");
  figure("relayed_peers", "relayed_peers", "Peers that it reaches through a relay only.");
  figure("punched_peers", "punched_peers", "Peers that it reaches through both routers, directly.");
  metrics.Gauge("reachable", "Whether others can dial it.", flag("reachable"));
  metrics.Gauge("run_paused", "Whether the run is paused by its operator.", flag("run_paused"));
  metrics.Gauge("resting", "Whether it rests, by its volunteer's limits.", is_said("resting"));
  metrics.Gauge("waiting", "Whether it waits for somebody.", is_said("waits_for"));
  for (const char* way : {"up", "down"}) {
    const auto rates = status.find(std::string(way) + "_mbit_by_class");
    if (rates == status.end() || !rates->is_object()) continue;
    const std::string name = std::string(way) + "_bits_per_second";
    metrics.Declare(name, "Of the last seconds, by class of traffic.");
    for (const auto& [traffic, mbit] : rates->items()) {
      if (!mbit.is_number()) continue;
      metrics.Value(name, 1e6 * mbit.get<double>(), "class=\"" + traffic + "\"");
    }
  }
  return metrics.text();
}

std::string StatusText(const nlohmann::json& status) {
  const auto text = [&](const char* key) { return status.value(key, std::string()); };
  const std::string waits = text("waits_for");
  const std::string run = text("run");
  std::string out = "node " + text("node") + " of run " + (run.empty() ? "?" : run) + "\n";
  out += Row("now", text("phase")) + "\n";
  out += Row("waits for", waits.empty() ? "nothing" : waits) + "\n";
  out += Row("step", absl::StrFormat("%d of %d", status.value("step", int64_t{0}),
                                     status.value("steps", int64_t{0}))) +
         "\n";
  out += Row("round", text("round_text")) + "\n";
  out += Row("part", text("part_text")) + "\n";
  out += Row("device", absl::StrFormat("%.0f %% at work; %s",
                                       100 * status.value("device_busy", 0.0), text("device"))) +
         "\n";
  out += Row("memory", MemoryText(status.value("memory_bytes", int64_t{0}),
                                  status.value("memory_offered_bytes", int64_t{0}))) +
         "\n";
  out += Row("contributed", text("contributed_text")) + "\n";
  out += Row("network", text("network_text")) + "\n";
  out += RatesHead() + "\n";
  for (const char* way : {"up", "down"}) {
    const auto by_class =
        status.value(std::string(way) + "_mbit_by_class", nlohmann::json::object());
    ClassRates rates{};
    for (size_t i = 0; i < kTrafficClasses; ++i) rates[i] = by_class.value(kClassNames[i], 0.0);
    out += RatesLine(way, rates) + "\n";
  }
  return out + Row("limits", text("limits")) + "\n";
}

}  // namespace skerry
