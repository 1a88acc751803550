#include "coordinator/dashboard_view.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/gauges.h"
#include "common/status.h"
#include "coordinator/page.h"
#include "coordinator/report_page.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

// A coordinator writes its status every heartbeat; older than this, it is not at work.
constexpr double kStatusOldS = 10;

std::string Code(const std::string& text) {
  return "<code>" + EscapeHtml(text) + "</code>";
}

bool Lives(const Json& node) {
  return node.value("alive", false);
}

// " a model of 3.35 million parameters in 4 stages, on 8 nodes in frankfurt, tokyo and virginia"
std::string WhatAndWhere(const Json& status, const RunReport& report) {
  constexpr size_t kNamed = 4;
  std::set<std::string> places;
  int64_t nodes = 0;
  const Json listed = status.value("nodes", Json::array());
  for (const Json& node : listed) {
    if (!Lives(node) || node.value("stage", -1) < 0) continue;
    ++nodes;
    if (const std::string region = node.value("region", ""); !region.empty()) places.insert(region);
  }
  if (nodes == 0 || report.parameters == 0 || report.stages.empty()) return "";
  std::string text = absl::StrFormat(
      " a model of %s parameters in %d stage%s, on %d node%s", HumanCount(report.parameters),
      report.stages.size(), report.stages.size() == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s");
  if (places.size() > kNamed) return text + absl::StrFormat(" in %d places", places.size());
  size_t named = 0;
  for (const std::string& place : places) {
    text += named == 0 ? " in " : named + 1 == places.size() ? " and " : ", ";
    text += place;
    ++named;
  }
  return text;
}

struct Now {
  std::string text;
  bool bad = false;
};

// What the run is doing, in a sentence.
Now Sentence(const Json& status, double age_s, const RunReport& report) {
  if (!status.is_object()) return {"as it was then"};
  const std::string phase = status.value("phase", "");
  if (age_s <= kStatusOldS && phase == "collecting the model") {
    return {"all steps are done; the model is being collected from its nodes"};
  }
  if (age_s <= kStatusOldS && status.contains("held_out_left_s")) {
    return {"finished; the loss of its model on held-out text is being read"};
  }
  if (phase == "finished" || report.finished) return {"finished"};
  if (age_s > kStatusOldS) {
    return {absl::StrFormat("the coordinator has said nothing for %s; nodes go on by themselves. "
                            "Start it again: skerry-coordinator serve DIR",
                            HumanSeconds(age_s)),
            true};
  }
  if (const std::string note = status.value("note", ""); !note.empty())
    return {"no plan yet: " + note};
  if (phase == "waiting for nodes") {
    return {absl::StrFormat("waiting for nodes: %d of %d are here",
                            status.value("nodes", Json::array()).size(),
                            status.value("nodes_min", 0))};
  }
  if (phase == "measuring links") {
    return {absl::StrFormat("measuring links: %d measured", status.value("links", 0))};
  }
  const Json orders = status.value("orders", Json::object());
  if (phase == "paused" || phase == "pausing") {
    const std::string why = orders.value("why", "");
    const auto step = orders.value("at_step", int64_t{0});
    return {(phase == "paused" ? absl::StrFormat("paused by the operator at step %d", step)
                               : absl::StrFormat("training; pauses at step %d", step)) +
            (why.empty() ? "" : ": " + why)};
  }
  return {phase == "training" ? phase + WhatAndWhere(status, report) : phase};
}

// Who is at work and whom the others wait for most. A piece of its own: the sentence about the run
// is read aloud when it changes, and this one changes every second.
std::string WaitingText(const Json& status, double age_s) {
  const std::string phase = status.value("phase", "");
  if ((phase != "training" && phase != "pausing") || age_s > kStatusOldS) return "";
  std::map<std::string, const Json*> nodes;
  std::map<std::string, int> waited_for;
  int here = 0, wait = 0;
  const Json listed = status.value("nodes", Json::array());
  for (const Json& node : listed) nodes[node.value("id", "")] = &node;
  for (const auto& [id, node] : nodes) {
    if (!Lives(*node) || node->value("stage", -1) < 0) continue;
    ++here;
    const std::string what = node->value("waiting_for", "");
    if (what.empty()) continue;
    ++wait;
    const std::string last = what.substr(what.find_last_of(' ') + 1);
    ++waited_for[nodes.contains(last) ? last : what];
  }
  if (here == 0) return "";
  if (wait == 0)
    return absl::StrFormat("%d of %d nodes compute or receive, nobody waits.", here, here);
  const auto most = std::max_element(waited_for.begin(), waited_for.end(),
                                     [](auto& a, auto& b) { return a.second < b.second; });
  const auto node = nodes.find(most->first);
  std::string whom = "the " + most->first;
  if (node != nodes.end()) {
    const std::string region = node->second->value("region", "");
    whom = absl::StrFormat("node %s (stage %d%s)", most->first, node->second->value("stage", -1),
                           region.empty() ? "" : ", " + region);
  }
  const std::string who = most->second == wait ? ""
                          : most->second == 1  ? ": one of them"
                                               : absl::StrFormat(": %d of them", most->second);
  return absl::StrFormat("%d of %d nodes compute or receive, %d wait%s%s for %s.", here - wait,
                         here, wait, wait == 1 ? "s" : "", who, whom);
}

// "2026-11-24 23:24 UTC"
std::string DayAndTime(const std::string& utc) {
  constexpr size_t kMinutes = 16;
  if (utc.size() < kMinutes || utc[10] != 'T') return utc;
  return utc.substr(0, 10) + " " + utc.substr(11, kMinutes - 11) + " UTC";
}

std::string Heading(const Json& status, double age_s, const RunReport& report, double read) {
  Now now = Sentence(status, age_s, report);
  if (read < 1) now.text += absl::StrFormat("; its history is being read, %.0f %%", 100 * read);
  return "<h1>" + EscapeHtml(report.name.empty() ? "A training run" : report.name) +
         "</h1><p class=\"muted\">run " + Code(report.run) + " · began " +
         EscapeHtml(DayAndTime(report.started_utc)) + "</p><p class=\"now" +
         (now.bad ? " bad" : "") + "\" role=\"status\">" + EscapeHtml(now.text) + "</p>";
}

int64_t Living(const Json& nodes) {
  return std::count_if(nodes.begin(), nodes.end(), Lives);
}

std::string ProgressTile(const Json& status, double age_s, const RunReport& report) {
  const int64_t steps = status.value("steps", int64_t{0});
  const int64_t step = status.value("step", report.steps);
  const double rate = status.value("tokens_per_s", 0.0);
  std::string note = HumanCount(report.tokens) + " tokens";
  const std::string phase = status.value("phase", "");
  const bool is_heard = age_s <= kStatusOldS;
  const bool goes_on = is_heard && phase != "paused" && phase != "pausing";
  if (steps > step && step > 0 && goes_on && report.step_ended_s.size() > 1) {
    // Of the last steps: what came before may have been slower or faster.
    const size_t count = std::min<size_t>(50, report.step_ended_s.size() - 1);
    const auto& last = report.step_ended_s.back();
    const auto& first = report.step_ended_s[report.step_ended_s.size() - 1 - count];
    const double step_s = (last.second - first.second) /
                          static_cast<double>(std::max<int64_t>(last.first - first.first, 1));
    note += " · " + HumanSeconds(step_s * static_cast<double>(steps - step)) + " to go";
  }
  if (steps == 0) return Tile("step", absl::StrFormat("%d", step), note);
  return Tile("step", absl::StrFormat("%d of %d", step, steps),
              note + (rate > 0 && is_heard ? absl::StrFormat(" · %.0f tokens/s", rate) : ""));
}

std::string Tiles(const Json& status, double age_s, const RunReport& report) {
  std::string html = "<div class=\"tiles\">" + ProgressTile(status, age_s, report);
  if (report.loss_initial && report.loss_final) {
    html += Tile("loss", absl::StrFormat("%.3f", *report.loss_final),
                 absl::StrFormat("nat per token, %.3f at first", *report.loss_initial));
  }
  if (!report.validation.empty()) {
    const auto& [step, loss] = report.validation.back();
    html += Tile("held-out loss", absl::StrFormat("%.3f", loss),
                 absl::StrFormat("of text it is not trained on, after step %d", step));
  }
  if (status.contains("nodes")) {
    html += Tile("nodes", absl::StrFormat("%d", Living(status["nodes"])),
                 absl::StrFormat("of %d that joined", status["nodes"].size()));
  }
  html += Tile(
      "pipeline", absl::StrFormat("%d × %d", report.stages.size(), report.ReplicaCountMin()),
      absl::StrFormat("stages × replicas; %.0f %% of visits skipped", 100 * report.skip_ratio));
  html += Tile("outer rounds", absl::StrFormat("%d", report.outer_rounds),
               report.hidden_fraction ? absl::StrFormat("%.1f %% of their transfer hidden",
                                                        100 * *report.hidden_fraction)
                                      : "no transfer measured yet");
  html += Tile("sent", HumanBytes(status.value("bytes_sent", 0.0)),
               HumanBytes(status.value("bytes_received", 0.0)) + " received, by all nodes");
  return html + "</div>";
}

// On a phone it is as wide as its labels need, and scrolls.
std::string Chart(const std::string& of, const std::string& svg) {
  return svg.empty() ? "" : Scrolled("chart of " + of, svg);
}

// The newest first: that is what somebody who looks in wants to know. A planner that looks again
// and again with nothing else between (a move is followed by a plan) is one line.
std::string NewestEvents(const RunReport& report) {
  constexpr size_t kShown = 200;
  RunReport newest;
  int64_t looks = 0;
  for (auto event = report.events.rbegin(); event != report.events.rend(); ++event) {
    const bool is_look = event->kind == "replan";
    if (is_look && looks > 0) {
      ++looks;
      continue;
    }
    if (looks > 1) newest.events.back().text += absl::StrFormat(" The last of %d looks.", looks);
    if (newest.events.size() == kShown) return EventTable(newest);
    newest.events.push_back(*event);
    looks = is_look ? 1 : 0;
  }
  if (looks > 1) newest.events.back().text += absl::StrFormat(" The last of %d looks.", looks);
  return EventTable(newest);
}

}  // namespace

DashboardPieces DashboardView(const Json& given, double status_age_s, const RunReport& report,
                              double history_read) {
  const Json status = given.is_object() ? given : Json::object();
  return {
      {"heading", Heading(given, status_age_s, report, history_read)},
      {"waiting", EscapeHtml(WaitingText(status, status_age_s))},
      {"tiles", Tiles(status, status_age_s, report)},
      {"pipeline",
       Section("Pipeline",
               "each column holds some layers of the model, each box is a node; microbatches go "
               "from left to right and back; an arrow leads from who waits to whom it waits for",
               PipelineSvg(status, report))},
      {"map", Section("Where", "regions of nodes and the links between them",
                      WorldMapSvg(status, report))},
      {"network", Section("Network", "who reaches whom how fast", NetworkSvg(status, report))},
      {"loss", Section("Loss", "nat per token, over steps, tokens and time; lower is better",
                       Chart("loss", LossChartSvg(report)))},
      {"pace", Section("Pace", "tokens a second, and how busy the devices are",
                       Chart("pace", PaceChartSvg(report)))},
      {"nodes", Section("Nodes", "", NodeTable(status))},
      {"rounds",
       Section("Outer rounds",
               "the nodes of a stage put together what they have learnt; times of the slowest",
               Chart("rounds", RoundsChartSvg(report)) + StageRoundsTable(report) +
                   NewestRoundsTable(report))},
      {"gantt", Section("Who did what when", "one step of the last rounds, a bar a microbatch",
                        GanttChart(report))},
      {"links", Section("Links", "as measured; stronger colour, faster link", LinkTable(report))},
      {"plan",
       Section(
           "Why this plan", "in the planner's words",
           report.plan_reason.empty() ? "" : "<pre>" + EscapeHtml(report.plan_reason) + "</pre>")},
      {"events", Section("What happened", "the newest first", NewestEvents(report))},
  };
}

std::string MetricsText(const Json& status, double status_age_s) {
  if (!status.is_object()) return "";
  Gauges metrics("skerry_");
  const auto figure = [&](const char* key, const char* name, const char* help) {
    metrics.Figure(status, key, name, help);
  };
  figure("step", "step", "Inner steps that are complete.");
  figure("steps", "steps", "Inner steps of the whole run.");
  figure("loss", "loss_nats", "Training loss of the last step, nat per token.");
  metrics.Figure(status.value("held_out", Json::object()), "loss", "held_out_loss_nats",
                 "Loss on held-out text of the newest checkpoint that was evaluated, or of the "
                 "finished model.");
  figure("tokens_per_s", "tokens_per_second", "Tokens trained on per second.");
  figure("rounds", "outer_rounds", "Outer rounds that were committed.");
  figure("bytes_sent", "sent_bytes", "Bytes sent by all nodes.");
  figure("bytes_received", "received_bytes", "Bytes received by all nodes.");
  figure("relayed_pairs", "relayed_pairs", "Pairs of nodes that reach each other through a relay.");
  metrics.Gauge("status_age_seconds", "Since the coordinator wrote its status.", status_age_s);
  const Json nodes = status.value("nodes", Json::array());
  metrics.Gauge("nodes_alive", "Nodes that are here.", static_cast<double>(Living(nodes)));
  const auto waits = std::count_if(nodes.begin(), nodes.end(), [](const Json& node) {
    return node.value("alive", false) && !node.value("waiting_for", "").empty();
  });
  const bool paused = status.value("phase", "") == "paused";
  metrics.Gauge("paused", "Whether the run is paused by its operator.", paused ? 1 : 0);
  metrics.Gauge("nodes_waiting", "Nodes that wait for another.", static_cast<double>(waits));
  return metrics.text();
}

}  // namespace skerry
