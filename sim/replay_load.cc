#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "common/median.h"
#include "common/status.h"
#include "pipeline/plan/outer_choice.h"
#include "routing/link_estimator.h"
#include "sim/replay.h"
#include "wire/config.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

// The first of these that exists.
std::optional<fs::path> FindFile(const fs::path& directory, const std::string& name) {
  for (const char* place : {".", "run", "logs"}) {
    const fs::path path = directory / place / name;
    if (fs::exists(path)) return path.lexically_normal();
  }
  return std::nullopt;
}

// The configuration that the log's "run" line carries.
absl::StatusOr<RunConfig> ConfigInLog(const fs::path& log) {
  std::ifstream in(log, std::ios::binary);
  std::string line;
  while (std::getline(in, line)) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (!event.is_object() || !event.contains("config") || !event["config"].is_string()) continue;
    return ParseRunConfig(event["config"].get<std::string>(), log.string());
  }
  return NotFound("%s has no configuration, and there is no run.toml beside it, in run/ or logs/",
                  log.string());
}

absl::StatusOr<RunConfig> FindConfig(const fs::path& directory, const fs::path& log) {
  if (const auto file = FindFile(directory, "run.toml")) return LoadRunConfig(file->string());
  return ConfigInLog(log);
}

// Every link as the planner would believe it.
void EstimateLinks(const RunReport& report, const std::map<std::string, size_t>& index,
                   ReplayedRun& run) {
  const auto id = [](size_t i) { return TestNodeId(static_cast<uint32_t>(i) + 1); };
  LinkEstimator estimator;
  for (const auto& [ends, link] : report.links) {
    if (!index.contains(ends.first) || !index.contains(ends.second)) continue;
    estimator
        .Add(id(index.at(ends.first)), id(index.at(ends.second)), link.rtt_ms * 1e-3,
             link.mbps * 1e6 / 8, Instant())
        .IgnoreError();  // what makes no sense was not measured
  }
  std::vector<NodeId> ids;
  for (size_t i = 0; i < run.nodes.size(); ++i) ids.push_back(id(i));
  const LinkMatrix matrix = estimator.Estimate(ids, Instant());
  int32_t guessed = 0, suspect = 0, unseen = 0;
  for (int32_t from = 0; from < matrix.size(); ++from) {
    for (int32_t to = 0; to < matrix.size(); ++to) {
      if (from == to) continue;
      const LinkEstimate& estimate = matrix.At(from, to);
      if (!estimate.usable()) continue;
      const ReplayLink link{estimate.rtt_s, estimate.bytes_per_s};
      run.links[{static_cast<size_t>(from), static_cast<size_t>(to)}] = link;
      suspect += estimate.suspect;
      guessed += estimate.source != LinkSource::kMeasured && !estimate.suspect;
      unseen += LineRateOf(link) == 0;
    }
  }
  const size_t all = run.links.size();
  const auto note = [&](int32_t count, const char* what) {
    if (count > 0)
      run.notes.push_back(absl::StrFormat("%d of %d directed links %s", count, all, what));
  };
  note(guessed, "were not measured: taken from the way back or from the others");
  note(suspect, "were measured far from all others: replaced, as the planner does");
  note(unseen, "are faster than a probe can tell: only TCP's window limits them here");
}

void FillRates(ReplayedRun& run) {
  std::vector<double> known;
  for (const ReplayNode& node : run.nodes)
    if (node.gflops > 0) known.push_back(node.gflops);
  for (ReplayNode& node : run.nodes) {
    if (node.gflops > 0) continue;
    node.gflops = known.empty() ? 10 : UpperMedian(known);
    run.notes.push_back(
        absl::StrFormat("%s did not say its rate: the median, %.0f GFLOP/s", node.id, node.gflops));
  }
}

// What the run's planner chose is the run's, unless a change says otherwise.
void TakeOver(const ReportOuter& seen, OuterConfig* outer) {
  if (seen.inner_steps < 1 || !IsOuterOpen(*outer)) return;
  outer->inner_steps = seen.inner_steps;
  outer->overlap_steps = seen.overlap_steps;
  outer->tier = OuterTier::kCustom;
  for (int i = 0; i <= static_cast<int>(DeltaCodec::kLast); ++i) {
    const auto codec = static_cast<DeltaCodec>(i);
    if (seen.codec == CodecName(codec)) outer->codec = codec;
  }
}

}  // namespace

absl::StatusOr<ReplayedRun> ReplayedRunOf(const RunReport& report, const RunConfig& config) {
  std::set<std::string> planned;
  for (const ReportStage& stage : report.stages)
    planned.insert(stage.replicas.begin(), stage.replicas.end());
  if (planned.empty())
    return FailedPrecondition("the run was never planned: there is nothing to replay");
  ReplayedRun run;
  run.config = config;
  run.report = report;
  std::map<std::string, size_t> index;
  for (const std::string& id : planned) {  // in order of ids, as the planner sees them
    const auto node = std::find_if(report.nodes.begin(), report.nodes.end(),
                                   [&](const ReportNode& n) { return n.id == id; });
    if (node == report.nodes.end())
      return FailedPrecondition("node %s is in the plan and was never admitted", id);
    index[id] = run.nodes.size();
    run.nodes.push_back({id, node->region, node->device, node->gflops});
  }
  TakeOver(report.outer, &run.config.outer);
  run.config.nodes_min = std::min(run.config.nodes_max, static_cast<int32_t>(run.nodes.size()));
  run.measured_config = run.config;
  EstimateLinks(report, index, run);
  if (run.links.size() != run.nodes.size() * (run.nodes.size() - 1))
    return FailedPrecondition("the log has too few measured links between the nodes of the plan");
  FillRates(run);
  const auto deaths = std::count_if(report.events.begin(), report.events.end(),
                                    [](const ReportEvent& e) { return e.kind == "dead"; });
  if (deaths > 0)
    run.notes.push_back(
        absl::StrFormat("%d nodes died in the measured run; here nobody does", deaths));
  if (!report.finished)
    run.notes.push_back("the measured run has not finished: what was sent is not known");
  run.notes.push_back("the log does not say how much memory devices have: no limit is assumed");
  return run;
}

absl::StatusOr<ReplayedRun> LoadReplayedRun(const std::string& directory) {
  const auto log = FindFile(directory, "events.jsonl");
  if (!log) {
    return NotFound(
        "%s: there is no events.jsonl in it, in run/ or in logs/; want a coordinator's "
        "run directory or the output of an emulation",
        directory);
  }
  SKERRY_ASSIGN_OR_RETURN(const RunReport report, BuildReport({*log}, std::nullopt));
  SKERRY_ASSIGN_OR_RETURN(const RunConfig config, FindConfig(directory, *log));
  auto run = ReplayedRunOf(report, config);
  return run.ok() ? run : Annotate(run.status(), log->string());
}

}  // namespace skerry
