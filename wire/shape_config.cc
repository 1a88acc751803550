#include "wire/shape_config.h"

#include <algorithm>

#include "common/status.h"
#include "wire/toml_reader.h"

namespace skerry {
namespace {

constexpr double kDelayMsMax = 60'000;
constexpr double kRateMbpsMin = 0.001;
constexpr double kRateMbpsMax = 1e6;
constexpr size_t kRegionsMax = 256;

double BytesPerSecond(double mbps) {
  return mbps * 1e6 / 8;
}

std::optional<double> Rate(TomlTable& table, const std::string& key) {
  const auto mbps = table.Number(key, kRateMbpsMin, kRateMbpsMax);
  if (!mbps) return std::nullopt;
  return BytesPerSecond(*mbps);
}

Duration ReadOneWay(TomlTable& table) {
  const auto rtt_ms = table.Number("rtt_ms", 0, kDelayMsMax);
  const auto one_way_ms = table.Number("one_way_ms", 0, kDelayMsMax);
  if (table.Has("rtt_ms") && table.Has("one_way_ms")) {
    table.Fail("one_way_ms", "give rtt_ms or one_way_ms, not both");
  } else if (!table.Has("rtt_ms") && !table.Has("one_way_ms")) {
    table.Fail("", "the delay is missing: give rtt_ms or one_way_ms");
  }
  return Duration::Seconds((rtt_ms ? *rtt_ms / 2 : one_way_ms.value_or(0)) * 1e-3);
}

struct BothRates {
  double ab = 0;
  double ba = 0;
};

BothRates ReadRates(TomlTable& table) {
  const auto both = Rate(table, "rate_mbps");
  const auto ab = Rate(table, "rate_ab_mbps");
  const auto ba = Rate(table, "rate_ba_mbps");
  const bool directed = table.Has("rate_ab_mbps") || table.Has("rate_ba_mbps");
  if (table.Has("rate_mbps") == directed) {
    table.Fail("rate_mbps", "give rate_mbps, or rate_ab_mbps and rate_ba_mbps");
  } else if (directed && table.Has("rate_ab_mbps") != table.Has("rate_ba_mbps")) {
    table.Fail("rate_ab_mbps", "rate_ab_mbps and rate_ba_mbps belong together");
  }
  return {ab.value_or(both.value_or(0)), ba.value_or(both.value_or(0))};
}

void ReadRegions(TomlDocument& document, WanShape& shape) {
  for (TomlTable* region : document.Elements("region")) {
    const auto name = region->Text("name");
    if (!name || name->empty()) {
      region->Fail("name", "a region needs a name");
    } else if (shape.HasRegion(*name)) {
      region->Fail("name", "region '" + *name + "' is named twice");
    } else if (shape.regions.size() == kRegionsMax) {
      region->Fail("name", absl::StrFormat("more than %d regions", kRegionsMax));
    } else {
      shape.regions.push_back(*name);
    }
  }
}

std::string ReadEnd(TomlTable& pair, const std::string& key, const WanShape& shape) {
  const auto name = pair.Text(key);
  if (!name) {
    pair.Fail(key, "a pair needs its regions a and b");
    return "";
  }
  if (!shape.HasRegion(*name)) {
    const std::string nearest = NearestName(*name, {shape.regions.begin(), shape.regions.end()});
    pair.Fail(key, "there is no region '" + *name + "'" +
                       (nearest.empty() ? "" : "; nearest is '" + nearest + "'"));
  }
  return *name;
}

void ReadPairs(TomlDocument& document, WanShape& shape) {
  for (TomlTable* pair : document.Elements("pair")) {
    const std::string a = ReadEnd(*pair, "a", shape);
    const std::string b = ReadEnd(*pair, "b", shape);
    if (a == b) pair->Fail("b", "a pair needs two different regions; see [same_region]");
    if (shape.links.contains({a, b})) pair->Fail("a", "this pair is given twice");
    const Duration one_way = ReadOneWay(*pair);
    const BothRates rates = ReadRates(*pair);
    shape.links[{a, b}] = {one_way, rates.ab};
    shape.links[{b, a}] = {one_way, rates.ba};
  }
}

void ReadOwnLines(TomlDocument& document, WanShape& shape) {
  TomlTable& access = document.Section("access");
  shape.up_bytes_per_s = Rate(access, "up_mbps").value_or(0);
  shape.down_bytes_per_s = Rate(access, "down_mbps").value_or(0);

  TomlTable& same = document.Section("same_region");
  const auto rate = Rate(same, "rate_mbps");
  if (same.Has("rtt_ms") || same.Has("one_way_ms")) shape.same_region.one_way = ReadOneWay(same);
  if (rate) shape.same_region.bytes_per_s = *rate;
}

}  // namespace

bool WanShape::HasRegion(const std::string& region) const {
  return std::find(regions.begin(), regions.end(), region) != regions.end();
}

std::optional<LinkShape> WanShape::Between(const std::string& from, const std::string& to) const {
  if (!HasRegion(from) || !HasRegion(to)) return std::nullopt;
  if (from == to) return same_region;
  const auto it = links.find({from, to});
  if (it == links.end()) return std::nullopt;
  return it->second;
}

absl::StatusOr<WanShape> ParseWanShape(const std::string& text, const std::string& file) {
  SKERRY_ASSIGN_OR_RETURN(TomlDocument document, TomlDocument::Parse(text, file));
  WanShape shape;
  ReadRegions(document, shape);
  ReadPairs(document, shape);
  ReadOwnLines(document, shape);
  SKERRY_RETURN_IF_ERROR(document.Finish());
  if (shape.regions.empty()) return InvalidArgument("%s: no [[region]] is given", file);
  for (const std::string& a : shape.regions) {
    for (const std::string& b : shape.regions) {
      if (a < b && !shape.links.contains({a, b}))
        return InvalidArgument("%s: the pair '%s' and '%s' is missing", file, a, b);
    }
  }
  return shape;
}

absl::StatusOr<WanShape> LoadWanShape(const std::string& path) {
  SKERRY_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  return ParseWanShape(text, path);
}

}  // namespace skerry
