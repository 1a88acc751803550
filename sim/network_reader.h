// The network of a scenario file: regions, the paths between them, access classes, sites, what
// changes over time. Reads its sections of an open document and leaves the errors there, with their
// lines; docs/SIMULATION.md lists the keys.
//
// Order of precedence for a path between two regions: [pair_default], then [[matrix]] in file
// order, then [[pair]]. For a path within a region: [same_region], the diagonal of a [[matrix]],
// [[region]]. A delay and a rate must come from one of them: nothing about a network is guessed.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/network_spec.h"
#include "wire/toml_reader.h"

namespace skerry {

inline constexpr size_t kScenarioRegionsMax = 256;

// What a node's own line is like. Rates 0: no limit.
struct AccessClass {
  double up_bytes_per_s = 0;
  double down_bytes_per_s = 0;
  Duration one_way;
  bool operator==(const AccessClass&) const = default;
};

// "direct" (no line of its own), "home", "university", "datacenter".
const std::map<std::string, AccessClass>& BuiltInAccessClasses();

class NetworkReader {
 public:
  // `directory`: data files are relative to it. The document outlives the reader.
  NetworkReader(TomlDocument& document, std::string directory);

  // Regions and paths; then the classes, and the sites that [[site]] names.
  void ReadRegionsAndPaths();
  void ReadClassesAndSites();
  // Appends a site and gives its index. `table` may override the class by up_mbps and down_mbps.
  int32_t AddSite(TomlTable& table, const std::string& name, int32_t region);
  // A further site with the same line.
  int32_t AddSiteLike(int32_t site, const std::string& name);
  // Traces, up to `horizon`: call when all sites are there.
  void ReadTraces(Duration horizon);

  // nullopt, and an error at `key`, if the table names none or another.
  std::optional<int32_t> Region(TomlTable& table, const std::string& key);
  std::optional<int32_t> FindRegion(const std::string& name) const;
  std::optional<int32_t> FindSite(const std::string& name) const;

  NetworkSpec& network() { return network_; }

 private:
  struct Given {  // what is known of a path so far
    bool delay = false;
    bool rate = false;
  };

  PathSpec& Path(int32_t from, int32_t to);
  Given& GivenOf(int32_t from, int32_t to);
  void ReadNetworkSection();
  void ReadRegionNames();
  void ReadDefaults();
  void ReadMatrix(TomlTable& matrix);
  void SetByMatrix(int32_t from, int32_t to, size_t kind, double value);
  void ReadPairs();
  void ReadWithinRegions();
  // Sets what the table gives of both directions.
  void ReadPathKeys(TomlTable& table, int32_t a, int32_t b);
  void RequirePaths();
  void ReadTrace(TomlTable& trace, Duration horizon);

  TomlDocument& document_;
  std::string directory_;
  NetworkSpec network_;
  std::vector<Given> given_;  // [regions, regions]
  std::vector<TomlTable*> region_tables_;
  std::map<std::string, int32_t> region_of_name_;
  std::map<std::string, int32_t> site_of_name_;
  std::map<std::string, AccessClass> classes_;
  std::set<std::pair<int32_t, int32_t>> traced_paths_;
  std::set<int32_t> traced_sites_;
};

}  // namespace skerry
