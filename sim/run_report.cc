#include "sim/run_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/status.h"
#include "coordinator/report_page.h"
#include "sim/scenario_run.h"
#include "wire/config.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

std::string Heading(const RunPicture& picture) {
  const Scenario& scenario = *picture.scenario;
  std::string html = "<h1>" + EscapeHtml(scenario.name) + "</h1><p class=\"muted\">";
  if (!scenario.about.empty()) html += EscapeHtml(scenario.about) + " · ";
  html += absl::StrFormat("on virtual time, seed %d · %s</p>", picture.seed,
                          picture.run->options().math == VirtualMath::kTiny
                              ? "a tiny model, really trained, at the scenario's times"
                              : "arithmetic is modelled, nothing is trained");
  if (!picture.outcome->finished) {
    html += "<p class=\"bad\">It did not finish: " + EscapeHtml(picture.outcome->ended) + "</p>";
  }
  return html;
}

std::string Tiles(const RunPicture& picture, const RunReport& report) {
  const VirtualOutcome& o = *picture.outcome;
  const RunConfig& config = picture.run->options().config;
  std::string html = "<div class=\"tiles\">";
  html += Tile("inner step", absl::StrFormat("%.3g s", o.step_s),
               absl::StrFormat("median of %d", o.steps));
  html += Tile("throughput", absl::StrFormat("%s tokens/s", HumanCount(int64_t(o.tokens_per_s))),
               HumanCount(o.tokens) + " tokens in all");
  html += Tile("outer rounds", absl::StrFormat("%d", o.rounds),
               absl::StrFormat("%.1f %% of their transfer hidden", 100 * o.hidden_fraction));
  html +=
      Tile("sent by nodes", HumanBytes(double(o.bytes_sent)),
           HumanBytes(double(o.bytes_sent) / double(std::max<int64_t>(o.tokens, 1))) + " a token");
  html += Tile("virtual time", HumanSeconds(o.virtual_s),
               "training took " + HumanSeconds(o.training_s));
  html += Tile("machines", absl::StrFormat("%d nodes", picture.run->options().nodes.size()),
               absl::StrFormat("in %d regions", report.RegionCount()));
  html += Tile(
      "pipeline", absl::StrFormat("%d × %d", report.stages.size(), report.ReplicaCountMin()),
      absl::StrFormat("stages × replicas, skip %.0f %%, %d microbatches",
                      100 * config.pipeline.skip_ratio, config.pipeline.microbatches_per_step));
  if (picture.run->options().math == VirtualMath::kTiny) {
    html += Tile("loss", absl::StrFormat("%.3f → %.3f", o.loss_first, o.loss_last),
                 "nat per token, means of 8 steps");
  }
  return html + "</div>";
}

std::string Sentences(const std::vector<std::string>& sentences) {
  if (sentences.empty()) return "";
  std::string html = "<ul class=\"bad\">";
  for (const std::string& sentence : sentences) html += "<li>" + EscapeHtml(sentence) + "</li>";
  return html + "</ul>";
}

std::string MarkTable(const RunTrace& trace) {
  if (trace.marks().empty()) return "";
  constexpr size_t kShown = 60;
  std::string html = "<table class=\"events\"><tbody>";
  for (size_t i = 0; i < std::min(kShown, trace.marks().size()); ++i) {
    const TraceMark& mark = trace.marks()[i];
    html += absl::StrFormat("<tr><td class=\"time\">%s</td><td>%s: %s</td></tr>",
                            HumanSeconds(mark.at_s),
                            mark.node == 0 ? "coordinator" : absl::StrFormat("node%d", mark.node),
                            EscapeHtml(mark.what));
  }
  html += "</tbody></table>";
  if (trace.marks().size() > kShown)
    html += absl::StrFormat("<p class=\"muted\">and %d more</p>", trace.marks().size() - kShown);
  return html;
}

}  // namespace

std::string EventLogOf(const VirtualRun& run) {
  const RunConfig& config = run.options().config;
  std::string log = Json{{"t", 0},
                         {"utc", ""},
                         {"kind", "run"},
                         {"run", "simulated"},
                         {"name", config.name},
                         {"seed", config.seed},
                         {"steps", config.steps},
                         {"skip_ratio", config.pipeline.skip_ratio},
                         {"nodes_min", config.nodes_min},
                         {"config", FormatRunConfig(config)}}
                        .dump() +
                    "\n";
  for (const VirtualEvent& event : run.events()) {
    if (event.process != VirtualRun::coordinator()) continue;
    log += absl::StrFormat("{\"t\":%.6f,\"utc\":\"\",\"kind\":\"%s\"%s%s}\n",
                           (event.at - Instant()).seconds(), event.kind,
                           event.fields.empty() ? "" : ",", event.fields);
  }
  return log;
}

RunReport ReportOf(const VirtualRun& run) {
  RunReport report = ReportOfLines(EventLogOf(run));
  if (run.options().math == VirtualMath::kModelled) {
    report.training.clear();
    report.loss_initial.reset();
    report.loss_final.reset();
  }
  return report;
}

std::string RunReportHtml(const RunPicture& picture) {
  const RunReport report = ReportOf(*picture.run);
  const RunTrace& trace = *picture.trace;
  const std::string matrix_note =
      trace.nodes() + 1 == trace.matrix_names().size()
          ? "all messages; row to column; colour by the logarithm"
          : "all messages, between regions; row to column; colour by the logarithm";
  const std::string body =
      Heading(picture) + Tiles(picture, report) +
      Section("What went wrong", "", Sentences(picture.wrong)) + GanttSection(picture) +
      Section("Lines", "activations, gradients and deltas; on the right the mean",
              LineUseSvg(picture)) +
      Section("From whom to whom", matrix_note, MatrixSvg(trace)) +
      Section("Outer rounds", "per stage, slowest replica",
              RoundsChartSvg(report) + RoundsTable(report)) +
      Section("Loss", "nat per token", LossChartSvg(report)) +
      Section("Who held what", "the plan in force at the end", PlacementTable(report)) +
      Section("Crashes and faults", "as scripted", MarkTable(trace)) +
      Section("What happened", "as the coordinator saw it", EventTable(report)) +
      Section("Again", absl::StrFormat("trace %016x", picture.outcome->trace_hash),
              "<pre>" + EscapeHtml(picture.command) + "</pre>");
  return HtmlPage(picture.scenario->name, body + kRunReportScript, kRunReportStyle);
}

}  // namespace skerry
