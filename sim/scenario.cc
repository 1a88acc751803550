#include "sim/scenario.h"

#include <toml++/toml.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "common/status.h"
#include "wire/config.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNodesMax = 64;  // processes on one machine

absl::StatusOr<std::string> ReadText(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return NotFound("%s: cannot be read", path.string());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

absl::Status RefuseUnknown(const std::string& file, const toml::table& table,
                           const std::set<std::string>& known) {
  for (const auto& [key, node] : table) {
    if (!known.contains(std::string(key.str()))) {
      return InvalidArgument("%s:%d: unknown key '%s'", file, node.source().begin.line,
                             std::string(key.str()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> WantString(const std::string& file, const toml::table& table,
                                       const std::string& key) {
  const auto value = table[key].value<std::string>();
  if (!value) return InvalidArgument("%s: want a text '%s = \"…\"'", file, key);
  return *value;
}

absl::Status ReadNodes(const std::string& file, const toml::table& root, Scenario& scenario) {
  const toml::array* groups = root["nodes"].as_array();
  if (groups == nullptr) return InvalidArgument("%s: want [[nodes]] with region and count", file);
  for (const toml::node& element : *groups) {
    const toml::table* group = element.as_table();
    const auto line = element.source().begin.line;
    if (group == nullptr) return InvalidArgument("%s:%d: want a table [[nodes]]", file, line);
    SKERRY_RETURN_IF_ERROR(RefuseUnknown(file, *group, {"region", "count"}));
    SKERRY_ASSIGN_OR_RETURN(const std::string region, WantString(file, *group, "region"));
    const int64_t count = (*group)["count"].value_or(int64_t{1});
    const auto total = static_cast<int64_t>(scenario.region_of_node.size()) + count;
    if (!scenario.wan.HasRegion(region)) {
      return InvalidArgument("%s:%d: region '%s' is not in the wan file", file, line, region);
    }
    if (count < 1 || total > kNodesMax) {
      return InvalidArgument("%s:%d: want 1 to %d nodes in all, got %d", file, line, kNodesMax,
                             total);
    }
    scenario.region_of_node.insert(scenario.region_of_node.end(), static_cast<size_t>(count),
                                   region);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Scenario> LoadScenario(const std::string& path) {
  const fs::path file = fs::is_directory(path) ? fs::path(path) / "scenario.toml" : fs::path(path);
  SKERRY_ASSIGN_OR_RETURN(const std::string text, ReadText(file));
  toml::table root;
  try {
    root = toml::parse(text);
  } catch (const toml::parse_error& error) {
    return InvalidArgument("%s:%d: %s", file.string(), error.source().begin.line,
                           std::string(error.description()));
  }
  const std::string name = file.string();
  SKERRY_RETURN_IF_ERROR(RefuseUnknown(name, root, {"name", "wan", "run", "text", "nodes"}));
  Scenario scenario;
  SKERRY_ASSIGN_OR_RETURN(scenario.name, WantString(name, root, "name"));
  SKERRY_ASSIGN_OR_RETURN(const std::string wan, WantString(name, root, "wan"));
  SKERRY_ASSIGN_OR_RETURN(const std::string run, WantString(name, root, "run"));
  SKERRY_ASSIGN_OR_RETURN(scenario.text_file, WantString(name, root, "text"));
  scenario.wan_file = fs::absolute(file.parent_path() / wan).string();
  SKERRY_ASSIGN_OR_RETURN(scenario.wan, LoadWanShape(scenario.wan_file));
  const fs::path run_file = file.parent_path() / run;
  SKERRY_ASSIGN_OR_RETURN(const std::string run_text, ReadText(run_file));
  SKERRY_ASSIGN_OR_RETURN(scenario.run, ParseRunConfig(run_text, run_file.string()));
  SKERRY_RETURN_IF_ERROR(ReadNodes(name, root, scenario));
  return scenario;
}

}  // namespace skerry
