// Lines of a log for programs: one JSON object a line, its fields named as in OpenTelemetry's log
// data model (timestamp, severity_text, severity_number, body, attributes, resource), so that a
// collector reads them without a rule of its own. What `serve` and `join --log-format json` print.
//
// Thread-safe; text that is not UTF-8 is replaced, fields that are no JSON become text.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"

namespace skerry {

enum class LogSeverity : int { kDebug = 5, kInfo = 9, kWarn = 13, kError = 17 };

inline const char* SeverityText(LogSeverity severity) {
  if (severity == LogSeverity::kError) return "ERROR";
  if (severity == LogSeverity::kWarn) return "WARN";
  return severity == LogSeverity::kInfo ? "INFO" : "DEBUG";
}

// "2026-11-23T19:20:05.123Z".
inline std::string LogTimestamp(std::chrono::system_clock::time_point at) {
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch()).count();
  const std::time_t whole = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  gmtime_r(&whole, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return absl::StrFormat("%s.%03dZ", text, ms % 1000);
}

// `fields`: members of a JSON object, with or without its braces.
inline nlohmann::json ParsedAttributes(const std::string& fields) {
  const bool braced = fields.starts_with('{');
  auto attributes = nlohmann::json::parse(braced ? fields : "{" + fields + "}", nullptr, false);
  if (!attributes.is_object()) attributes = {{"text", fields}};
  return attributes;
}

class JsonLog {
 public:
  // `service`: "skerry-node". `instance`: which of them: a node's or a run's name.
  explicit JsonLog(std::string service, std::string instance = "")
      : resource_({{"service.name", std::move(service)}}) {
    if (!instance.empty()) resource_["service.instance.id"] = std::move(instance);
  }

  // Without its end.
  std::string Line(LogSeverity severity, const std::string& body,
                   nlohmann::json attributes = nlohmann::json::object()) const {
    nlohmann::json line = {{"timestamp", LogTimestamp(std::chrono::system_clock::now())},
                           {"severity_text", SeverityText(severity)},
                           {"severity_number", static_cast<int>(severity)},
                           {"body", body},
                           {"attributes", std::move(attributes)},
                           {"resource", resource_}};
    return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  // Of an event, `fields` as above. Its body names the event and its plain fields:
  // "dead node=ab12cd34 silent_s=6.1".
  std::string EventLine(LogSeverity severity, const std::string& kind,
                        const std::string& fields) const {
    nlohmann::json attributes = ParsedAttributes(fields);
    std::string body = kind;
    for (const auto& [key, value] : attributes.items()) {
      if (value.is_structured()) continue;
      body += " " + key + "=" + (value.is_string() ? value.get<std::string>() : value.dump());
    }
    attributes["event.name"] = kind;
    return Line(severity, body, std::move(attributes));
  }

 private:
  nlohmann::json resource_;
};

}  // namespace skerry
