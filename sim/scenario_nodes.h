// The part of the scenario reader that says who takes part: [device.X], [churn.X], [coordinator],
// [[nodes]]. Used by scenario.cc only.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "sim/network_reader.h"
#include "sim/scenario.h"
#include "wire/toml_reader.h"

namespace skerry {

class ScenarioNodesReader {
 public:
  ScenarioNodesReader(TomlDocument& document, NetworkReader& network, std::string directory)
      : document_(document), network_(network), directory_(std::move(directory)) {}

  // Fills in nodes and churn, and the network's site_of_node. Errors stay in the document.
  void Read(Scenario& scenario);

 private:
  void ReadDevices();
  void ReadChurn(Scenario& scenario);
  void ReadChurnTimes(TomlTable& table, ChurnSpec& spec);
  void ReadChurnTrace(TomlTable& table, ChurnSpec& spec);
  void ReadGroup(TomlTable& table, Scenario& scenario);
  ScenarioNode ReadNode(TomlTable& table, Scenario& scenario);
  // The sites of `count` nodes, one each or all the same.
  void PlaceNodes(TomlTable& table, const std::string& group, size_t count);
  void ReadCoordinator(Scenario& scenario);
  void CheckChurn(const Scenario& scenario);

  TomlDocument& document_;
  NetworkReader& network_;
  std::string directory_;
  std::map<std::string, DeviceSpec> devices_;  // the scenario's own
  std::map<std::string, TomlTable*> churn_tables_;
  int groups_read_ = 0;
};

}  // namespace skerry
