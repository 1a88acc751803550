#include "coordinator/log_program.h"

#include <chrono>
#include <cstdio>
#include <optional>
#include <set>

#include "common/cli_program.h"
#include "common/json_log.h"
#include "common/status.h"
#include "coordinator/leave_reasons.h"

namespace skerry {
namespace {

std::optional<JsonLog>& Log() {
  static std::optional<JsonLog> log;
  return log;
}

void Put(std::FILE* to, const std::string& line) {
  std::fprintf(to, "%s\n", line.c_str());
  std::fflush(to);
}

// Nothing goes on until somebody makes room, or the database answers.
bool Stops(const std::string& kind) {
  return kind.starts_with("journal_") || kind.starts_with("lease_");
}

void SayWhyLeft(const std::string& kind, const std::string& fields) {
  static LeaveReasons reasons;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const double now_s = std::chrono::duration<double>(now).count();
  const std::string line = reasons.Line(now_s, kind, fields);
  if (!line.empty()) Put(stdout, line);
}

void SayStageLost(const std::string& fields) {
  const auto event = nlohmann::json::parse("{" + fields + "}", nullptr, false);
  if (!event.is_object()) return;
  std::string stages;
  for (const auto& stage : event.value("stages", nlohmann::json::array()))
    stages += (stages.empty() ? "" : ", ") + stage.dump();
  const std::string back =
      absl::StrFormat("the run goes back to step %d", event.value("step", int64_t{0}));
  Put(stdout, absl::StrFormat("nobody is left of stage %s: %s; %s", stages, event.value("why", ""),
                              event.value("then", back)));
}

// How much an event is worth to who reads a log.
LogSeverity SeverityOf(const std::string& kind) {
  static const std::set<std::string> kWarnings = {
      "absent",           "checkpoint_damaged", "checkpoint_failed",  "dead",
      "detour",           "digest_mismatch",    "false_sum",          "handover_failed",
      "no_plan",          "nobody_heard",       "screened",           "stage_lost",
      "stage_not_remade", "state_mismatch",     "statistics_refused", "sum_accused",
      "sum_disputed",     "work_disputed",      "work_doubted",       "sum_not_shown",
      "unreachable",      "odd_sizes",          "sizes_disputed"};
  static const std::set<std::string> kOften = {"applied", "link", "round", "step"};
  if (Stops(kind)) return LogSeverity::kError;
  if (kWarnings.contains(kind)) return LogSeverity::kWarn;
  return kOften.contains(kind) ? LogSeverity::kDebug : LogSeverity::kInfo;
}

}  // namespace

void LogAsJson(const std::string& instance) {
  Log().emplace("skerry-coordinator", instance);
}

bool LogsJson() {
  return Log().has_value();
}

void LogLine(const std::string& line) {
  Put(stdout, Log() ? Log()->Line(LogSeverity::kInfo, line) : line);
}

void LogEvent(const std::string& kind, const std::string& fields) {
  if (Log()) {
    if (kind == "trace") return;  // long, and only of use as a picture
    Put(stdout, Log()->EventLine(SeverityOf(kind), kind, fields));
  } else if (Stops(kind)) {
    Put(stderr, "skerry-coordinator: " + kind + " " + fields);
  } else if (kind == "left" || kind == "dead") {
    SayWhyLeft(kind, fields);
  } else if (kind == "nobody_heard") {
    const auto event = nlohmann::json::parse("{" + fields + "}", nullptr, false);
    Put(stdout, event.is_object() ? event.value("why", kind) : kind);
  } else if (kind == "stage_lost") {
    SayStageLost(fields);
  }
}

int LogEnd(const absl::Status& status) {
  if (status.ok() || !Log()) return EndedWith("skerry-coordinator", status);
  Put(stderr, Log()->Line(LogSeverity::kError, ErrorText(status)));
  return 1;
}

}  // namespace skerry
