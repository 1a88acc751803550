#include "coordinator/changed_config_program.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/digest.h"
#include "wire/config.h"

namespace skerry {
namespace {

constexpr size_t kNamedMax = 4;

// "[section] key" → its value, of what FormatRunConfig writes.
std::map<std::string, std::string> ValuesOf(const RunConfig& config) {
  std::map<std::string, std::string> values;
  std::istringstream lines(FormatRunConfig(config));
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    line.resize(std::min(line.size(), line.find("  #")));
    const size_t at = line.find(" = ");
    if (line.starts_with("[")) section = line;
    if (at == std::string::npos || line.starts_with("#")) continue;
    const std::string value = line.substr(at + 3);
    values[section + " " + line.substr(0, at)] = value.substr(0, value.find_last_not_of(' ') + 1);
  }
  return values;
}

}  // namespace

std::string WhatChanged(std::istream& events, const std::string& began_with, const RunConfig& now) {
  for (std::string line; std::getline(events, line);) {
    if (line.find("\"kind\":\"run\"") == std::string::npos) continue;
    const auto event = nlohmann::json::parse(line, nullptr, false);
    const auto text = event.is_object() ? event.find("config") : event.end();
    if (text == event.end() || !text->is_string()) continue;
    const auto before = ParseRunConfig(text->get<std::string>(), "events.jsonl");
    if (!before.ok() || ConfigDigest(*before).Hex() != began_with) continue;
    const auto is = ValuesOf(now);
    std::string changed;
    size_t count = 0;
    for (const auto& [key, value] : ValuesOf(*before)) {
      if (is.at(key) == value || ++count > kNamedMax) continue;
      changed +=
          absl::StrFormat("%s%s was %s, is %s", count > 1 ? "; " : "", key, value, is.at(key));
    }
    if (count > kNamedMax) changed += absl::StrFormat("; and %d more", count - kNamedMax);
    return changed;
  }
  return "";
}

}  // namespace skerry
