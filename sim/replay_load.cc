#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "common/status.h"
#include "sim/replay.h"
#include "wire/config.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

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

// What the log does not say of a pair: the way back, else the median of all.
void FillLinks(ReplayedRun& run) {
  std::vector<double> rtts, rates;
  for (const auto& [pair, link] : run.links) {
    rtts.push_back(link.rtt_s);
    rates.push_back(link.bytes_per_s);
  }
  const ReplayLink usual{Median(rtts), Median(rates)};
  const auto measured = run.links;
  size_t missing = 0;
  for (size_t from = 0; from < run.nodes.size(); ++from) {
    for (size_t to = 0; to < run.nodes.size(); ++to) {
      if (from == to || measured.contains({from, to})) continue;
      const auto back = measured.find({to, from});
      run.links[{from, to}] = back == measured.end() ? usual : back->second;
      ++missing;
    }
  }
  if (missing > 0) {
    run.notes.push_back(absl::StrFormat(
        "%d of %d directed links were not measured: taken from the way back, else the median",
        missing, run.links.size()));
  }
}

void FillRates(ReplayedRun& run) {
  std::vector<double> known;
  for (const ReplayNode& node : run.nodes)
    if (node.gflops > 0) known.push_back(node.gflops);
  for (ReplayNode& node : run.nodes) {
    if (node.gflops > 0) continue;
    node.gflops = known.empty() ? 10 : Median(known);
    run.notes.push_back(
        absl::StrFormat("%s did not say its rate: the median, %.0f GFLOP/s", node.id, node.gflops));
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
  run.config.nodes_min = static_cast<int32_t>(run.nodes.size());
  for (const auto& [ends, link] : report.links) {
    if (!index.contains(ends.first) || !index.contains(ends.second) || link.mbps <= 0) continue;
    run.links[{index.at(ends.first), index.at(ends.second)}] = {link.rtt_ms * 1e-3,
                                                                link.mbps * 1e6 / 8};
  }
  if (run.links.empty() && run.nodes.size() > 1)
    return FailedPrecondition("the log has no measured links between the nodes of the plan");
  FillLinks(run);
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
