#include "node/say.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/json_log.h"
#include "common/status.h"

namespace skerry {
namespace {

std::function<void(const std::string&)>& Sayer() {
  static std::function<void(const std::string&)> sayer;
  return sayer;
}

std::optional<JsonLog>& Log() {
  static std::optional<JsonLog> log;
  return log;
}

void Put(std::FILE* to, const std::string& line) {
  std::fprintf(to, "%s\n", line.c_str());
  std::fflush(to);
}

LogSeverity SeverityOf(const std::string& kind) {
  for (const char* bad : {"out_of_memory", "donor_refuted", "donor_silent", "started_over"}) {
    if (kind == bad) return LogSeverity::kWarn;
  }
  return LogSeverity::kInfo;
}

}  // namespace

std::string EventText(const std::string& kind, const std::string& fields) {
  const auto json =
      nlohmann::ordered_json::parse(fields.starts_with('{') ? fields : "{" + fields + "}", nullptr,
                                    /*allow_exceptions=*/false);
  if (!json.is_object()) return kind + " " + fields;
  std::string text = kind;
  const char* before = ": ";
  for (const auto& [key, value] : json.items()) {
    if (value.is_structured() && value.empty()) continue;
    text += before + key + " " + (value.is_string() ? value.get<std::string>() : value.dump());
    before = ", ";
  }
  return text;
}

void Say(const std::string& line) {
  if (Sayer()) return Sayer()(line);
  Put(stdout, Log() ? Log()->Line(LogSeverity::kInfo, line) : line);
}

void SayEvent(const std::string& kind, const std::string& fields) {
  if (!Log() || Sayer()) return Say(EventText(kind, fields));
  Put(stdout, Log()->EventLine(SeverityOf(kind), kind, fields));
}

void SayFigures(const std::string& line, const std::string& fields) {
  if (!Log() || Sayer()) return Say(line);
  Put(stdout, Log()->Line(LogSeverity::kInfo, line, ParsedAttributes(fields)));
}

bool SayError(const absl::Status& status) {
  if (!Log()) return false;
  Put(stderr, Log()->Line(LogSeverity::kError, ErrorText(status)));
  return true;
}

void SetSayer(std::function<void(const std::string&)> sayer) {
  Sayer() = std::move(sayer);
}

void SayAsJson(const std::string& instance) {
  Log().emplace("skerry-node", instance);
}

bool SaysJson() {
  return Log().has_value();
}

}  // namespace skerry
