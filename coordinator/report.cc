#include "coordinator/report.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "common/status.h"
#include "coordinator/report_events.h"
#include "model/file_io.h"

namespace skerry {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr size_t kFinalLossSteps = 10;

absl::StatusOr<std::string> ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return NotFound("%s: cannot be opened", path.string());
  return std::string(std::istreambuf_iterator<char>(in), {});
}

absl::Status FoldFile(const fs::path& path, const std::function<void(double)>& on_read,
                      EventFold& fold) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return NotFound("%s: cannot be opened", path.string());
  const int64_t before = fold.understood();
  std::error_code none;
  const auto size = static_cast<double>(fs::file_size(path, none));
  double read = 0;
  for (std::string line; std::getline(in, line);) {
    fold.OnLine(line);
    read += static_cast<double>(line.size() + 1);
    if (on_read) on_read(read / size);
  }
  if (fold.understood() > before) return absl::OkStatus();
  return InvalidArgument("%s: no line of it is an event; want a coordinator's events.jsonl",
                         path.string());
}

LossCurve CurveAt(const json& object, const char* key) {
  LossCurve curve;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return curve;
  for (const json& point : *found) {
    if (!point.is_array() || point.size() != 2 || !point[0].is_number() || !point[1].is_number()) {
      continue;
    }
    curve.emplace_back(static_cast<int64_t>(point[0].get<double>()), point[1].get<double>());
  }
  std::sort(curve.begin(), curve.end());
  return curve;
}

void SetNumber(const json& object, const char* key, std::optional<double>& value) {
  const auto found = object.find(key);
  if (found != object.end() && found->is_number()) value = found->get<double>();
}

void SetConfiguredLinks(const json& extra, RunReport& report) {
  const auto links = extra.find("links_configured");
  if (links == extra.end() || !links->is_array()) return;
  for (const json& link : *links) {
    if (!link.is_object()) continue;
    std::optional<double> rtt_ms, mbps;
    SetNumber(link, "rtt_ms", rtt_ms);
    SetNumber(link, "mbps", mbps);
    report.configured[{TextAt(link, "from"), TextAt(link, "to")}] = {rtt_ms.value_or(0),
                                                                     mbps.value_or(0)};
  }
}

absl::Status AddExtra(const fs::path& path, RunReport& report) {
  SKERRY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const json extra = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!extra.is_object()) return InvalidArgument("%s: want one JSON object", path.string());
  SetNumber(extra, "loss_initial", report.loss_initial);
  SetNumber(extra, "loss_final", report.loss_final);
  SetNumber(extra, "loss_reference", report.loss_reference);
  if (extra.contains("validation")) report.validation = CurveAt(extra, "validation");
  report.reference = CurveAt(extra, "reference_curve");
  SetConfiguredLinks(extra, report);
  report.sample = TextAt(extra, "sample");
  report.command = TextAt(extra, "command");
  return absl::OkStatus();
}

void SetTrainingLosses(RunReport& report) {
  if (report.training.empty()) return;
  const size_t count = std::min(kFinalLossSteps, report.training.size());
  double last = 0;
  for (size_t i = report.training.size() - count; i < report.training.size(); ++i) {
    last += report.training[i].second;
  }
  report.loss_initial = report.training.front().second;
  report.loss_final = last / static_cast<double>(count);
}

template <typename T>
json OrNull(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json PlacementJson(const RunReport& report) {
  json stages = json::array();
  for (const ReportStage& stage : report.stages) {
    stages.push_back({{"first_layer", stage.first_layer},
                      {"last_layer", stage.last_layer},
                      {"replicas", stage.replicas}});
  }
  return stages;
}

// null where nothing is configured.
json LinkAccuracyJson(const LinkAccuracy& accuracy) {
  if (accuracy.links == 0) return nullptr;
  return {{"links", accuracy.links},
          {"within_tolerance", accuracy.within},
          {"tolerance", kLinkTolerance},
          {"rtt_off_median", accuracy.rtt.median},
          {"rtt_off_worst", accuracy.rtt.worst},
          {"rate_off_median", accuracy.rate.median},
          {"rate_off_worst", accuracy.rate.worst}};
}

json RoundsJson(const RunReport& report) {
  json stages = json::array();
  for (const StageRounds& stage : RoundsByStage(report)) {
    stages.push_back({{"stage", stage.stage},
                      {"rounds", stage.rounds},
                      {"bits_up", stage.bits_up},
                      {"bits_down", stage.bits_down},
                      {"transfer_s", stage.transfer_s},
                      {"hidden", stage.hidden},
                      {"digest", stage.digest},
                      {"agreed", stage.agreed},
                      {"replicas", stage.replicas}});
  }
  return stages;
}

// Who took part and who is missing, and why, is null where the log does not say.
json NewestRoundsJson(const RunReport& report) {
  json rounds = json::array();
  for (const ReportRound* round : NewestRounds(report)) {
    json took_part, missing, missing_count;
    if (!round->took_part.empty()) took_part = round->took_part;
    if (round->is_missing_known) {
      missing = json::array();
      missing_count = round->missing_count;
      for (const auto& [node, why] : round->missing)
        missing.push_back({{"node", node}, {"why", why}});
    }
    const bool is_measured = round->transfer_s > 0;
    rounds.push_back({{"stage", round->stage},
                      {"round", round->round},
                      {"committed_s", round->committed_s},
                      {"participants", round->participants},
                      {"took_part", took_part},
                      {"missing", missing},
                      {"missing_count", missing_count},
                      {"bytes_sent", round->bytes_sent},
                      {"bytes_received", round->bytes_received},
                      {"transfer_s", is_measured ? json(round->transfer_s) : json()},
                      {"hidden", is_measured ? json(round->HiddenShare()) : json()},
                      {"digests", round->digests}});
  }
  return rounds;
}

}  // namespace

bool RunReport::IsPlanReasonPhrase() const {
  return !plan_reason.empty() && plan_reason.size() < 80 &&
         plan_reason.find('\n') == std::string::npos;
}

int64_t RunReport::RegionCount() const {
  std::set<std::string> regions;
  for (const ReportNode& node : nodes) regions.insert(node.region);
  return static_cast<int64_t>(regions.size());
}

int64_t RunReport::ReplicaCountMin() const {
  const auto fewest = std::min_element(
      stages.begin(), stages.end(),
      [](const auto& a, const auto& b) { return a.replicas.size() < b.replicas.size(); });
  return fewest == stages.end() ? 0 : static_cast<int64_t>(fewest->replicas.size());
}

RunReport ReportOf(EventFold fold) {
  RunReport report = std::move(fold).Finish();
  report.software = SKERRY_VERSION;
  SetTrainingLosses(report);
  return report;
}

absl::StatusOr<RunReport> BuildReport(const std::vector<fs::path>& event_logs,
                                      const std::optional<fs::path>& extra,
                                      const std::function<void(double)>& on_read) {
  EventFold fold;
  for (const fs::path& log : event_logs) SKERRY_RETURN_IF_ERROR(FoldFile(log, on_read, fold));
  RunReport report = ReportOf(std::move(fold));
  if (extra) SKERRY_RETURN_IF_ERROR(AddExtra(*extra, report));
  return report;
}

RunReport ReportOfLines(std::string_view lines) {
  EventFold fold;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    fold.OnLine(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return ReportOf(std::move(fold));
}

std::string ReportJson(const RunReport& report) {
  const json out = {
      {"run", report.run},
      {"name", report.name},
      {"version", report.software},
      {"finished", report.finished},
      {"seed", report.seed},
      {"loss_initial", OrNull(report.loss_initial)},
      {"loss_final", OrNull(report.loss_final)},
      {"loss_reference", OrNull(report.loss_reference)},
      {"tokens", report.tokens},
      {"steps", report.steps},
      {"parameters", report.parameters},
      {"nodes", report.nodes.size()},
      {"regions", report.RegionCount()},
      {"stages", report.stages.size()},
      {"replicas", report.ReplicaCountMin()},
      {"placement", PlacementJson(report)},
      {"skip_ratio", report.skip_ratio},
      {"outer_rounds", report.outer_rounds},
      {"bytes_up", OrNull(report.bytes_up)},
      {"bytes_down", OrNull(report.bytes_down)},
      {"hidden_fraction", OrNull(report.hidden_fraction)},
      {"links_measured", LinkAccuracyJson(AccuracyOf(report))},
      {"stage_rounds", RoundsJson(report)},
      {"newest_rounds", NewestRoundsJson(report)},
      {"wall_s", report.wall_s},
      {"unreadable_lines", report.unreadable_lines},
      {"curves",
       {{"training", report.training},
        {"validation", report.validation},
        {"reference", report.reference}}},
  };
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

absl::Status WriteReport(const RunReport& report, const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return Unavailable("%s: %s", directory.string(), error.message());
  SKERRY_RETURN_IF_ERROR(ReplaceText(directory / "report.json", ReportJson(report)));
  return ReplaceText(directory / "report.html", ReportHtml(report));
}

}  // namespace skerry
