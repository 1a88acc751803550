#include "sim/fault_plan.h"

#include <array>
#include <charconv>

#include "absl/strings/str_format.h"
#include "sim/network_reader_units.h"

namespace skerry {
namespace {

constexpr double kFactorMax = 1e6;

enum Whom : uint8_t { kNodes, kNodesOrCoordinator, kWay, kCoordinator };
enum Lasts : uint8_t { kNotTimed, kMayEnd, kMustEnd };

struct Rule {
  const char* name;
  Whom whom;
  Lasts lasts;
};
constexpr std::array<Rule, kFaultKinds> kRules = {{
    {"crash", kNodes, kMayEnd},
    {"restart", kNodes, kMustEnd},
    {"hang", kNodesOrCoordinator, kMustEnd},
    {"slow_device", kNodes, kMayEnd},
    {"slow_link", kWay, kMayEnd},
    {"cut", kWay, kMayEnd},
    {"loss_burst", kWay, kMustEnd},
    {"clock_jump", kNodesOrCoordinator, kNotTimed},
    {"clock_drift", kNodesOrCoordinator, kMayEnd},
    {"wrong_result", kNodes, kMayEnd},
    {"poisoned_delta", kNodes, kMayEnd},
    {"coordinator_crash", kCoordinator, kMustEnd},
    {"disk_full", kNodesOrCoordinator, kMayEnd},
    {"wild", kNodes, kMayEnd},
}};

class FaultReader {
 public:
  FaultReader(TomlTable& table, NetworkReader& reader, Duration horizon)
      : table_(table), reader_(reader), horizon_(horizon) {}

  Fault Read() {
    fault_.line = table_.Line();
    std::vector<std::string> names;
    for (const Rule& rule : kRules) names.emplace_back(rule.name);
    const auto kind = table_.Choice("kind", names);
    if (!table_.Has("kind")) table_.Fail("kind", "a fault needs a kind");
    fault_.kind = static_cast<FaultKind>(kind.value_or(0));
    const Rule& rule = kRules[kind.value_or(0)];
    ReadTime(rule);
    switch (rule.whom) {
      case kNodes:
      case kNodesOrCoordinator:
        ReadWhom(rule.whom == kNodesOrCoordinator);
        break;
      case kWay:
        ReadWay();
        break;
      case kCoordinator:
        fault_.where = {FaultEnd::Kind::kNode, 0};
        break;
    }
    ReadStrength();
    return fault_;
  }

 private:
  void ReadTime(const Rule& rule) {
    const auto at_s = table_.Number("at_s", 0, 1e9);
    const bool by_record = fault_.kind == FaultKind::kCoordinatorCrash;
    if (by_record) fault_.at_record = table_.Integer("at_record", 1, int64_t{1} << 40);
    if (at_s) fault_.at = Instant() + DurationOfSeconds(*at_s);
    if (table_.Has("at_s") == (by_record && table_.Has("at_record"))) {
      table_.Fail("at_s", by_record ? "give at_s or at_record: one of the two"
                                    : "a fault needs at_s, its time in seconds");
    }
    if (fault_.at > Instant() + horizon_) {
      table_.Fail("at_s", absl::StrFormat("%g s is after the scenario's horizon_s of %g", *at_s,
                                          horizon_.seconds()));
    }
    if (rule.lasts == kNotTimed) return;
    if (const auto for_s = table_.Number("for_s", 0.001, 1e9)) {
      fault_.lasts = DurationOfSeconds(*for_s);
    } else if (rule.lasts == kMustEnd && !table_.Has("for_s")) {
      table_.Fail("for_s", std::string("a ") + rule.name + " needs for_s, its length in seconds");
    }
  }

  int32_t Nodes() const { return static_cast<int32_t>(reader_.network().site_of_node.size()) - 1; }

  void ReadWhom(bool or_coordinator) {
    const auto node = table_.Integer("node", 1, Nodes());
    const bool has_region = table_.Has("region");
    const auto region = has_region ? reader_.Region(table_, "region") : std::nullopt;
    bool coordinator = false;
    if (or_coordinator) coordinator = table_.Boolean("coordinator").value_or(false);
    if (int{table_.Has("node")} + int{has_region} + int{coordinator} != 1) {
      table_.Fail("", or_coordinator ? "say whom: node, region or coordinator = true"
                                     : "say whom: node or region");
    }
    if (node) {
      fault_.where = {FaultEnd::Kind::kNode, static_cast<int32_t>(*node)};
    } else if (region) {
      fault_.where = {FaultEnd::Kind::kRegion, *region};
    } else {
      fault_.where = {FaultEnd::Kind::kNode, 0};
    }
  }

  FaultEnd ReadEnd(const std::string& key) {
    const auto name = table_.Text(key);
    if (!name) return {};
    if (*name == "coordinator") return {FaultEnd::Kind::kNode, 0};
    if (const auto region = reader_.FindRegion(*name)) return {FaultEnd::Kind::kRegion, *region};
    int32_t node = 0;
    if (name->starts_with("node")) {
      const auto [end, error] =
          std::from_chars(name->data() + 4, name->data() + name->size(), node);
      if (error == std::errc() && end == name->data() + name->size() && node >= 1 &&
          node <= Nodes()) {
        return {FaultEnd::Kind::kNode, node};
      }
    }
    table_.Fail(key, absl::StrFormat("'%s' is no region, nor one of node1 to node%d, nor "
                                     "'coordinator'",
                                     *name, Nodes()));
    return {};
  }

  void ReadWay() {
    if (!table_.Has("a")) table_.Fail("a", "say where: a, and b unless it is everything else");
    fault_.where = ReadEnd("a");
    fault_.other = ReadEnd("b");
    if (fault_.where == fault_.other) table_.Fail("b", "a and b are the same");
    fault_.both_directions =
        table_.Choice("direction", {"both", "one_way"}).value_or(size_t{0}) == 0;
  }

  void Want(const char* key, bool there, const char* what) {
    if (!there && !table_.Has(key)) table_.Fail(key, what);
  }

  void ReadStrength() {
    switch (fault_.kind) {
      case FaultKind::kRestart: {
        const auto disk = table_.Boolean("disk");
        Want("disk", disk.has_value(), "a restart needs disk = true or false: does it survive");
        fault_.keeps_disk = disk.value_or(true);
        break;
      }
      case FaultKind::kSlowDevice:
      case FaultKind::kSlowLink: {
        const auto factor = table_.Number("factor", 1, kFactorMax);
        Want("factor", factor.has_value(), "how much slower: factor, at least 1, is missing");
        fault_.factor = factor.value_or(1);
        break;
      }
      case FaultKind::kWild: {
        const auto factor = table_.Number("factor", -kFactorMax, kFactorMax);
        Want("factor", factor.has_value(), "how wild: factor, of the honest delta, is missing");
        if (factor == 0.0) table_.Fail("factor", "0 is no delta at all");
        fault_.factor = factor.value_or(1);
        fault_.is_noise = table_.Boolean("noise").value_or(false);
        break;
      }
      case FaultKind::kLossBurst: {
        const auto loss = table_.Number("loss", 0, 1);
        Want("loss", loss.has_value(), "the share of lost packets, loss, is missing");
        fault_.probability = loss.value_or(0);
        break;
      }
      case FaultKind::kWrongResult:
        fault_.probability = table_.Number("share", 0, 1).value_or(1);
        break;
      case FaultKind::kClockJump: {
        const auto by_s = table_.Number("by_s", -1e6, 1e6);
        Want("by_s", by_s.has_value(), "how far the clock jumps, by_s, is missing");
        fault_.by = DurationOfSeconds(by_s.value_or(0));
        break;
      }
      case FaultKind::kClockDrift: {
        const auto ppm = table_.Number("drift_ppm", -500'000, 500'000);
        Want("drift_ppm", ppm.has_value(), "how fast the clock drifts, drift_ppm, is missing");
        fault_.drift_ppm = ppm.value_or(0);
        break;
      }
      default:
        break;
    }
  }

  TomlTable& table_;
  NetworkReader& reader_;
  Duration horizon_;
  Fault fault_;
};

}  // namespace

const char* NameOf(FaultKind kind) {
  return kRules[static_cast<size_t>(kind)].name;
}

bool FaultEnd::Has(int32_t node, const NetworkSpec& network) const {
  if (kind == Kind::kEverything) return true;
  if (kind == Kind::kNode) return node == index;
  const auto site = static_cast<size_t>(network.site_of_node[static_cast<size_t>(node)]);
  return network.sites[site].region == index;
}

std::vector<int32_t> FaultEnd::Nodes(const NetworkSpec& network) const {
  if (kind == Kind::kNode) return {index};
  std::vector<int32_t> nodes;
  for (int32_t node = 1; node < static_cast<int32_t>(network.site_of_node.size()); ++node) {
    if (Has(node, network)) nodes.push_back(node);
  }
  return nodes;
}

std::vector<Fault> ReadFaults(TomlDocument& document, NetworkReader& reader, Duration horizon) {
  std::vector<Fault> faults;
  for (TomlTable* table : document.Elements("fault"))
    faults.push_back(FaultReader(*table, reader, horizon).Read());
  return faults;
}

}  // namespace skerry
