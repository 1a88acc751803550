// [class.NAME] and [[site]]: the lines by which nodes reach their region.
#include <utility>

#include "sim/network_reader.h"
#include "sim/network_reader_units.h"

namespace skerry {

const std::map<std::string, AccessClass>& BuiltInAccessClasses() {
  static const std::map<std::string, AccessClass> kClasses = {
      {"direct", {}},
      // Ookla's world means of fixed lines, 2020-09: 85.73 Mbit/s down, 45.74 up, 21 ms to the
      // nearest server, taken as the round trip over the line.
      {"home", {BytesPerSecond(45.74), BytesPerSecond(85.73), DurationOfMs(10.5)}},
      // A desk's port of Gigabit Ethernet (IEEE 802.3ab); 1 ms across the campus as in DT-FM's
      // multi-university case (arXiv 2206.01288).
      {"university", {BytesPerSecond(1000), BytesPerSecond(1000), DurationOfMs(0.5)}},
      // "Up to 10 Gbit/s" of EC2 p3.2xlarge and Google's smaller accelerator machines (the
      // providers' instance tables); 0.5 ms, the middle of cloudping.co's round trips inside one
      // region.
      {"datacenter", {BytesPerSecond(10000), BytesPerSecond(10000), DurationOfMs(0.25)}},
  };
  return kClasses;
}

void NetworkReader::ReadClassesAndSites() {
  for (const auto& [name, section] : document_.Subsections("class")) {
    AccessClass line;
    const bool direct = section->Boolean("unlimited").value_or(false);
    const auto up = ReadRate(*section, "up_mbps"), down = ReadRate(*section, "down_mbps");
    if (direct ? (up || down) : !(up && down))
      section->Fail("", "a class needs up_mbps and down_mbps, or unlimited = true");
    line.up_bytes_per_s = up.value_or(0);
    line.down_bytes_per_s = down.value_or(0);
    line.one_way = ReadOneWay(*section, "access_rtt_ms", "access_one_way_ms").value_or(Duration());
    if (BuiltInAccessClasses().contains(name))
      section->Fail("", "class '" + name + "' is built in; choose another name");
    classes_[name] = line;
  }
  for (TomlTable* site : document_.Elements("site")) {
    const auto name = site->Text("name");
    const auto region = Region(*site, "region");
    if (!name || name->empty()) {
      site->Fail("name", "a site needs a name");
    } else {
      AddSite(*site, *name, region.value_or(0));
    }
  }
}

int32_t NetworkReader::AddSite(TomlTable& table, const std::string& name, int32_t region) {
  SiteSpec site;
  site.name = name;
  site.region = region;
  const std::string class_name = table.Text("class").value_or("direct");
  const auto known = classes_.find(class_name);
  if (known == classes_.end()) {
    std::string all;
    for (const auto& [one, line] : classes_) all += (all.empty() ? "'" : ", '") + one + "'";
    table.Fail("class", "there is no class '" + class_name + "', there are " + all);
  } else {
    site.up_bytes_per_s = known->second.up_bytes_per_s;
    site.down_bytes_per_s = known->second.down_bytes_per_s;
    site.access_one_way = known->second.one_way;
  }
  if (const auto up = ReadRate(table, "up_mbps")) site.up_bytes_per_s = *up;
  if (const auto down = ReadRate(table, "down_mbps")) site.down_bytes_per_s = *down;
  if (const auto way = ReadOneWay(table, "access_rtt_ms", "access_one_way_ms"))
    site.access_one_way = *way;
  if (const auto local = ReadOneWay(table, "local_rtt_ms", "local_one_way_ms"))
    site.local_one_way = *local;
  if (const auto rate = ReadRate(table, "local_rate_mbps")) site.local_bytes_per_s = *rate;
  site.local_is_shared = table.Boolean("local_shared").value_or(false);
  const auto index = static_cast<int32_t>(network_.sites.size());
  if (!site_of_name_.emplace(name, index).second)
    table.Fail("name", "site '" + name + "' is named twice");
  network_.sites.push_back(std::move(site));
  return index;
}

int32_t NetworkReader::AddSiteLike(int32_t site, const std::string& name) {
  SiteSpec copy = network_.sites[static_cast<size_t>(site)];
  copy.name = name;
  const auto index = static_cast<int32_t>(network_.sites.size());
  site_of_name_.emplace(name, index);
  network_.sites.push_back(std::move(copy));
  return index;
}

std::optional<int32_t> NetworkReader::FindSite(const std::string& name) const {
  const auto it = site_of_name_.find(name);
  return it == site_of_name_.end() ? std::nullopt : std::optional(it->second);
}

}  // namespace skerry
