#include "sim/network_reader.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/status.h"
#include "sim/network_reader_units.h"

namespace skerry {
namespace {

constexpr size_t kRegionNameMax = 64;

// A fault names its ends "node7" or by region: no region may look like a node.
bool LooksLikeNode(const std::string& name) {
  return name == "coordinator" ||
         (name.starts_with("node") && name.size() > 4 &&
          std::all_of(name.begin() + 4, name.end(), [](char c) { return c >= '0' && c <= '9'; }));
}

// WHAT_ab_mbps and WHAT_ba_mbps.
std::optional<std::pair<double, double>> ReadDirected(TomlTable& pair, const std::string& what) {
  const std::string ab_key = what + "_ab_mbps", ba_key = what + "_ba_mbps";
  const auto ab = ReadRate(pair, ab_key), ba = ReadRate(pair, ba_key);
  if (pair.Has(ab_key) != pair.Has(ba_key)) {
    pair.Fail(pair.Has(ab_key) ? ab_key : ba_key, ab_key + " and " + ba_key + " belong together");
  } else if (pair.Has(ab_key) && pair.Has(what + "_mbps")) {
    pair.Fail(ab_key, "give " + what + "_mbps, or " + ab_key + " and " + ba_key);
  }
  if (!ab || !ba) return std::nullopt;
  return std::pair(*ab, *ba);
}

}  // namespace

NetworkReader::NetworkReader(TomlDocument& document, std::string directory)
    : document_(document), directory_(std::move(directory)), classes_(BuiltInAccessClasses()) {}

PathSpec& NetworkReader::Path(int32_t from, int32_t to) {
  return network_
      .paths[static_cast<size_t>(from) * network_.regions.size() + static_cast<size_t>(to)];
}

NetworkReader::Given& NetworkReader::GivenOf(int32_t from, int32_t to) {
  return given_[static_cast<size_t>(from) * network_.regions.size() + static_cast<size_t>(to)];
}

std::optional<int32_t> NetworkReader::FindRegion(const std::string& name) const {
  const auto it = region_of_name_.find(name);
  return it == region_of_name_.end() ? std::nullopt : std::optional(it->second);
}

std::optional<int32_t> NetworkReader::Region(TomlTable& table, const std::string& key) {
  const auto name = table.Text(key);
  if (!name) {
    if (!table.Has(key)) table.Fail(key, "'" + key + "' is missing: want the name of a region");
    return std::nullopt;
  }
  const auto region = FindRegion(*name);
  if (!region) {
    const std::string nearest =
        NearestName(*name, {network_.regions.begin(), network_.regions.end()});
    table.Fail(key, "there is no region '" + *name + "'" +
                        (nearest.empty() ? "" : "; nearest is '" + nearest + "'"));
  }
  return region;
}

void NetworkReader::ReadRegionsAndPaths() {
  ReadNetworkSection();
  ReadRegionNames();
  ReadDefaults();
  for (TomlTable* matrix : document_.Elements("matrix")) ReadMatrix(*matrix);
  ReadPairs();
  ReadWithinRegions();
  RequirePaths();
}

void NetworkReader::ReadNetworkSection() {
  TomlTable& section = document_.Section("network");
  if (const auto which = section.Choice("congestion_control", {"cubic", "bbr"}))
    network_.congestion_control = static_cast<CongestionControl>(*which);
  if (const auto ms = section.Number("queue_ms", 1, kDelayMsMax))
    network_.queue = DurationOfMs(*ms);
  if (const auto mb = section.Number("window_mb", 0.01, 1e4)) network_.window_bytes_max = *mb * 1e6;
}

void NetworkReader::ReadRegionNames() {
  const auto add = [&](TomlTable& table, const std::string& key, const std::string& name) {
    if (name.empty() || name.size() > kRegionNameMax || LooksLikeNode(name)) {
      table.Fail(key, "'" + name + "' cannot name a region");
    } else if (network_.regions.size() == kScenarioRegionsMax) {
      table.Fail(key, absl::StrFormat("more than %d regions", kScenarioRegionsMax));
    } else if (!region_of_name_.emplace(name, static_cast<int32_t>(network_.regions.size()))
                    .second) {
      table.Fail(key, "region '" + name + "' is named twice");
    } else {
      network_.regions.push_back(name);
    }
  };
  TomlTable& root = document_.Root();
  for (const std::string& name :
       root.Texts("regions", kScenarioRegionsMax).value_or(std::vector<std::string>())) {
    add(root, "regions", name);
  }
  region_tables_ = document_.Elements("region");
  for (TomlTable* region : region_tables_) {
    const auto name = region->Text("name");
    if (name) {
      add(*region, "name", *name);
    } else {
      region->Fail("name", "a region needs a name");
    }
  }
  if (network_.regions.empty()) {
    root.Fail("regions", "there is no region: want regions = [\"…\"] or [[region]] with a name");
  }
  network_.paths.resize(network_.regions.size() * network_.regions.size());
  given_.resize(network_.paths.size());
}

void NetworkReader::ReadDefaults() {
  TomlTable& pairs = document_.Section("pair_default");
  TomlTable& within = document_.Section("same_region");
  const auto count = static_cast<int32_t>(network_.regions.size());
  for (int32_t from = 0; from < count; ++from) {
    for (int32_t to = 0; to < count; ++to) {
      if (from != to) {
        ReadPathKeys(pairs, from, to);
        continue;
      }
      Path(from, to).one_way = Duration::Micros(250);
      Path(from, to).bytes_per_s = 125e6;
      GivenOf(from, to) = {true, true};
      ReadPathKeys(within, from, to);
    }
  }
}

void NetworkReader::ReadPathKeys(TomlTable& table, int32_t a, int32_t b) {
  const auto both = [&](auto&& change) {
    change(Path(a, b), GivenOf(a, b));
    if (a != b) change(Path(b, a), GivenOf(b, a));
  };
  if (const auto one_way = ReadOneWay(table, "rtt_ms", "one_way_ms")) {
    both([&](PathSpec& path, Given& given) {
      path.one_way = *one_way;
      given.delay = true;
    });
  }
  if (const auto rate = ReadRateOrUnlimited(table)) {
    both([&](PathSpec& path, Given& given) {
      path.bytes_per_s = *rate;
      given.rate = true;
    });
  }
  if (const auto cap = ReadRate(table, "flow_cap_mbps"))
    both([&](PathSpec& path, Given&) { path.flow_bytes_per_s = *cap; });
  if (const auto loss = table.Number("loss", 0, kLossMax))
    both([&](PathSpec& path, Given&) { path.loss = *loss; });
  if (const auto ms = table.Number("jitter_ms", 0, kDelayMsMax))
    both([&](PathSpec& path, Given&) { path.jitter = DurationOfMs(*ms); });
}

void NetworkReader::ReadPairs() {
  std::set<std::pair<int32_t, int32_t>> seen;
  for (TomlTable* pair : document_.Elements("pair")) {
    const auto a = Region(*pair, "a"), b = Region(*pair, "b");
    if (!a || !b) continue;
    if (*a == *b) {
      pair->Fail("b", "a pair needs two different regions; see [same_region] and [[region]]");
      continue;
    }
    if (!seen.insert(std::minmax(*a, *b)).second) pair->Fail("a", "this pair is given twice");
    ReadPathKeys(*pair, *a, *b);
    if (const auto rates = ReadDirected(*pair, "rate")) {
      if (pair->Has("unlimited"))
        pair->Fail("unlimited", "give unlimited = true or rates, not both");
      Path(*a, *b).bytes_per_s = rates->first;
      Path(*b, *a).bytes_per_s = rates->second;
      GivenOf(*a, *b).rate = GivenOf(*b, *a).rate = true;
    }
    if (const auto caps = ReadDirected(*pair, "flow_cap")) {
      Path(*a, *b).flow_bytes_per_s = caps->first;
      Path(*b, *a).flow_bytes_per_s = caps->second;
    }
    if (!GivenOf(*a, *b).delay || !GivenOf(*b, *a).delay) {
      pair->Fail("", "the delay is missing: give rtt_ms or one_way_ms");
    } else if (!GivenOf(*a, *b).rate || !GivenOf(*b, *a).rate) {
      pair->Fail("",
                 "the rate is missing: give rate_mbps, or rate_ab_mbps and rate_ba_mbps, or "
                 "unlimited = true");
    }
  }
}

void NetworkReader::ReadWithinRegions() {
  for (TomlTable* region : region_tables_) {
    const auto index = FindRegion(region->Text("name").value_or(""));
    if (index) ReadPathKeys(*region, *index, *index);
  }
}

void NetworkReader::RequirePaths() {
  TomlTable& root = document_.Root();
  const std::string place = root.Has("regions") ? "regions" : "region";
  const auto count = static_cast<int32_t>(network_.regions.size());
  for (int32_t a = 0; a < count; ++a) {
    for (int32_t b = 0; b < count; ++b) {
      const Given& given = GivenOf(a, b);
      if (given.delay && given.rate) continue;
      root.Fail(place, absl::StrFormat("the way from '%s' to '%s' has no %s: give a [[pair]], a "
                                       "[[matrix]] or [pair_default]",
                                       network_.regions[static_cast<size_t>(a)],
                                       network_.regions[static_cast<size_t>(b)],
                                       given.delay ? "rate" : "delay"));
      return;
    }
  }
}

}  // namespace skerry
