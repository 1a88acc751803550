#include "sim/scenario_nodes.h"

#include <algorithm>
#include <set>

#include "common/status.h"
#include "sim/network_reader_units.h"

namespace skerry {

void ScenarioNodesReader::Read(Scenario& scenario) {
  ReadDevices();
  ReadChurn(scenario);
  network_.network().site_of_node.assign(1, 0);
  const auto groups = document_.Elements("nodes");
  if (groups.empty())
    document_.Root().Fail("nodes", "there are no nodes: want [[nodes]] with region and count");
  for (TomlTable* group : groups) ReadGroup(*group, scenario);
  ReadCoordinator(scenario);
  CheckChurn(scenario);
}

void ScenarioNodesReader::ReadDevices() {
  for (const auto& [name, table] : document_.Subsections("device")) {
    DeviceSpec device;
    device.name = name;
    device.title = table->Text("title").value_or(name);
    device.fp32.sustained_tflops = table->Number("fp32_tflops", 1e-6, 1e6).value_or(0);
    device.bf16.sustained_tflops = table->Number("bf16_tflops", 1e-6, 1e6).value_or(0);
    device.memory_gib = table->Number("memory_gib", 0.001, 1e6).value_or(0);
    device.host_gib = table->Number("host_gib", 0, 1e6).value_or(0);
    device.spill_gib = table->Number("spill_gib", 0, 1e6).value_or(0);
    device.spill_gb_per_s = table->Number("spill_gb_per_s", 0, 1e3).value_or(0);
    if ((device.spill_gib > 0) != (device.spill_gb_per_s > 0))
      table->Fail("spill_gib", "a disk for activations has spill_gib and spill_gb_per_s");
    if (device.fp32.sustained_tflops == 0 && device.bf16.sustained_tflops == 0)
      table->Fail("", "a device needs fp32_tflops or bf16_tflops, what it sustains");
    if (device.memory_gib == 0) table->Fail("memory_gib", "a device needs memory_gib");
    if (FindDevice(name)) table->Fail("", "device '" + name + "' is in the catalogue");
    device.sustained_source = "the scenario";
    devices_[name] = device;
  }
}

void ScenarioNodesReader::ReadChurn(Scenario& scenario) {
  for (const auto& [name, table] : document_.Subsections("churn")) {
    ChurnGroup group;
    group.name = name;
    group.line = table->Line();
    group.spec.keeps_disk = table->Boolean("disk").value_or(true);
    if (table->Has("trace")) {
      ReadChurnTrace(*table, group.spec);
    } else {
      ReadChurnTimes(*table, group.spec);
    }
    churn_tables_[name] = table;
    scenario.churn.push_back(std::move(group));
  }
}

void ScenarioNodesReader::ReadChurnTimes(TomlTable& table, ChurnSpec& spec) {
  const auto weibull = [&](const std::string& which, WeibullTime& time) {
    const auto shape = table.Number(which + "_shape", 0.1, 10);
    const auto scale_h = table.Number(which + "_scale_h", 1e-4, 1e6);
    if (!shape || !scale_h) {
      if (!table.Has(which + "_shape") || !table.Has(which + "_scale_h")) {
        table.Fail("", "want " + which + "_shape and " + which +
                           "_scale_h of a Weibull distribution, or a trace");
      }
      return;
    }
    time = {*shape, DurationOfSeconds(*scale_h * 3600)};
  };
  weibull("up", spec.up);
  weibull("down", spec.down);
  spec.start =
      static_cast<ChurnStart>(table.Choice("start", {"fresh", "stationary"}).value_or(size_t{0}));
}

void ScenarioNodesReader::ReadChurnTrace(TomlTable& table, ChurnSpec& spec) {
  const auto file = table.Text("trace");
  const double from_s = table.Number("trace_from_s", 0, 1e9).value_or(0);
  if (!file) return;
  auto trace = LoadChurnTrace(directory_ + "/" + *file);
  if (!trace.ok()) return table.Fail("trace", ErrorText(trace.status()));
  spec.trace = StartTraceAt(*trace, Instant() + DurationOfSeconds(from_s));
  if (spec.trace.empty()) table.Fail("trace_from_s", "nothing is left of the trace from there");
}

ScenarioNode ScenarioNodesReader::ReadNode(TomlTable& table, Scenario& scenario) {
  ScenarioNode node;
  const std::string device = table.Text("device").value_or("cpu-core-avx2");
  if (const auto own = devices_.find(device); own != devices_.end()) {
    node.device = own->second;
  } else if (const auto known = FindDevice(device)) {
    node.device = *known;
  } else {
    std::set<std::string> names;
    for (const DeviceSpec& spec : DeviceCatalog()) names.insert(spec.name);
    for (const auto& [name, spec] : devices_) names.insert(name);
    const std::string nearest = NearestName(device, names);
    table.Fail("device", "there is no device '" + device + "' in the catalogue nor in [device.X]" +
                             (nearest.empty() ? "" : "; nearest is '" + nearest + "'"));
    node.device = DeviceCatalog().front();
  }
  node.format = node.device.natural_format();
  if (const auto format = table.Choice("format", {"fp32", "bf16"}))
    node.format = static_cast<NumberFormat>(*format);
  if (node.device.rate(node.format).sustained_tflops <= 0)
    table.Fail("format", "'" + node.device.name + "' does not compute in this format");
  node.churn = table.Text("churn").value_or("");
  node.nat = table.Boolean("nat").value_or(false);
  node.relay = table.Boolean("relay").value_or(false);
  if (node.nat && node.relay) table.Fail("relay", "a node behind a router cannot be a relay");
  const auto group = std::find_if(scenario.churn.begin(), scenario.churn.end(),
                                  [&](const ChurnGroup& one) { return one.name == node.churn; });
  if (!node.churn.empty() && group == scenario.churn.end())
    table.Fail("churn", "there is no [churn." + node.churn + "]");
  return node;
}

void ScenarioNodesReader::ReadGroup(TomlTable& table, Scenario& scenario) {
  const int64_t count = table.Integer("count", 1, kScenarioNodesMax).value_or(1);
  const size_t before = scenario.nodes.size();
  if (before + static_cast<size_t>(count) > kScenarioNodesMax) {
    table.Fail("count", absl::StrFormat("more than %d nodes in all", kScenarioNodesMax));
    return;
  }
  ScenarioNode node = ReadNode(table, scenario);
  node.group = table.Text("name").value_or(absl::StrFormat("group%d", groups_read_++ + 1));
  PlaceNodes(table, node.group, static_cast<size_t>(count));
  for (ChurnGroup& group : scenario.churn) {
    if (group.name != node.churn) continue;
    for (int64_t i = 0; i < count; ++i)
      group.nodes.push_back(static_cast<int32_t>(before) + static_cast<int32_t>(i) + 1);
  }
  NetworkSpec& network = network_.network();
  for (int64_t i = 0; i < count; ++i) {
    const auto number = static_cast<int32_t>(before) + static_cast<int32_t>(i) + 1;
    if (node.nat) network.behind_routers.push_back(number);
    if (node.relay) network.relays.push_back(number);
  }
  scenario.nodes.insert(scenario.nodes.end(), static_cast<size_t>(count), node);
}

void ScenarioNodesReader::PlaceNodes(TomlTable& table, const std::string& group, size_t count) {
  std::vector<int32_t>& site_of_node = network_.network().site_of_node;
  if (table.Has("site")) {
    if (table.Has("region")) table.Fail("region", "give region or site, not both");
    const auto name = table.Text("site");
    const auto site = network_.FindSite(name.value_or(""));
    if (name && !site) table.Fail("site", "there is no [[site]] with the name '" + *name + "'");
    site_of_node.insert(site_of_node.end(), count, site.value_or(0));
    return;
  }
  const int32_t region = network_.Region(table, "region").value_or(0);
  const bool shared = table.Boolean("shared").value_or(false);
  const size_t number = site_of_node.size();
  const int32_t first =
      network_.AddSite(table, shared ? group : absl::StrFormat("node%d", number), region);
  site_of_node.push_back(first);
  for (size_t i = 1; i < count; ++i) {
    site_of_node.push_back(
        shared ? first : network_.AddSiteLike(first, absl::StrFormat("node%d", number + i)));
  }
}

void ScenarioNodesReader::ReadCoordinator(Scenario& scenario) {
  TomlTable& table = document_.Section("coordinator");
  NetworkSpec& network = network_.network();
  int32_t region = 0;
  if (table.Has("region")) {
    region = network_.Region(table, "region").value_or(0);
  } else if (network.site_of_node.size() > 1 && !network.sites.empty()) {
    region = network.sites[static_cast<size_t>(network.site_of_node[1])].region;
  }
  network.site_of_node[0] = network_.AddSite(table, "coordinator", region);
  scenario.tests_lines = table.Boolean("tests_lines").value_or(scenario.tests_lines);
}

void ScenarioNodesReader::CheckChurn(const Scenario& scenario) {
  for (const ChurnGroup& group : scenario.churn) {
    TomlTable& table = *churn_tables_.at(group.name);
    if (group.nodes.empty()) table.Fail("", "no [[nodes]] have churn = \"" + group.name + "\"");
    const int32_t most = MachinesAtOnce(group.spec.trace);
    if (static_cast<size_t>(most) > group.nodes.size()) {
      table.Fail("trace", absl::StrFormat("the trace has up to %d machines at once, there are %d "
                                          "nodes with this churn",
                                          most, group.nodes.size()));
    }
  }
}

}  // namespace skerry
