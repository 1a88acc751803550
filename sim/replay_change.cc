#include <algorithm>
#include <cstdlib>
#include <set>

#include "common/status.h"
#include "pipeline/plan/outer_choice.h"
#include "sim/config_change.h"
#include "sim/replay.h"
#include "wire/config.h"
#include "wire/toml_reader.h"

namespace skerry {
namespace {

constexpr double kSameRegionRttS = 1e-3;  // of a new node to the one it is like, if it is alone

std::string KnownNodes(const ReplayedRun& run) {
  std::string all;
  for (const ReplayNode& node : run.nodes) all += (all.empty() ? "" : ", ") + node.id;
  return all;
}

std::vector<size_t> NodesWithPrefix(const ReplayedRun& run, const std::string& prefix) {
  std::vector<size_t> found;
  for (size_t i = 0; i < run.nodes.size(); ++i)
    if (!prefix.empty() && run.nodes[i].id.starts_with(prefix)) found.push_back(i);
  return found;
}

std::vector<size_t> NodesIn(const ReplayedRun& run, const std::string& region) {
  std::vector<size_t> found;
  for (size_t i = 0; i < run.nodes.size(); ++i)
    if (run.nodes[i].region == region) found.push_back(i);
  return found;
}

absl::StatusOr<size_t> OneNode(const ReplayedRun& run, const std::string& id) {
  const std::vector<size_t> found = NodesWithPrefix(run, id);
  if (found.size() == 1) return found.front();
  return InvalidArgument("%s node begins with '%s'; there are %s",
                         found.empty() ? "no" : "more than one", id, KnownNodes(run));
}

absl::StatusOr<double> PositiveNumber(const std::string& text, const std::string& what) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value > 0) || value > 1e12)
    return InvalidArgument("%s: '%s' is not a number above 0", what, text);
  return value;
}

absl::StatusOr<size_t> NodeOfRegion(const ReplayedRun& run, const std::string& region) {
  const std::vector<size_t> there = NodesIn(run, region);
  if (!there.empty()) return there.front();
  std::set<std::string> regions;
  for (const ReplayNode& node : run.nodes) regions.insert(node.region);
  std::string all;
  for (const std::string& one : regions) all += (all.empty() ? "" : ", ") + one;
  const std::string nearest = NearestName(region, regions);
  return InvalidArgument("no node is in '%s'%s; there are %s", region,
                         nearest.empty() ? "" : ", nearest is '" + nearest + "'", all);
}

// A neighbour of `like`: its links to everybody, and between the two what the region has.
void AddNodeLike(ReplayedRun& run, size_t like, double gflops) {
  const size_t fresh = run.nodes.size();
  ReplayNode node = run.nodes[like];
  node.id = absl::StrFormat("new%d", fresh);
  node.gflops = gflops;
  run.nodes.push_back(node);
  ReplayLink between{kSameRegionRttS, 0};
  for (size_t i = 0; i < fresh; ++i) {
    if (i == like) continue;
    run.links[{fresh, i}] = run.links.at({like, i});
    run.links[{i, fresh}] = run.links.at({i, like});
    between.bytes_per_s = std::max(between.bytes_per_s, run.links.at({like, i}).bytes_per_s);
  }
  for (const size_t i : NodesIn(run, node.region)) {
    if (i != like && i != fresh) between = run.links.at({like, i});
  }
  if (between.bytes_per_s <= 0) between.bytes_per_s = 12.5e6;
  run.links[{fresh, like}] = run.links[{like, fresh}] = between;
}

absl::Status AddNode(ReplayedRun& run, const std::string& what) {
  const size_t colon = what.rfind(':');
  if (colon == std::string::npos)
    return InvalidArgument("add-node:%s: want REGION:GFLOPS or like:ID", what);
  const std::string place = what.substr(0, colon), last = what.substr(colon + 1);
  size_t like = 0;
  double gflops = 0;
  if (place == "like") {
    SKERRY_ASSIGN_OR_RETURN(like, OneNode(run, last));
    gflops = run.nodes[like].gflops;
  } else {
    SKERRY_ASSIGN_OR_RETURN(like, NodeOfRegion(run, place));
    SKERRY_ASSIGN_OR_RETURN(gflops, PositiveNumber(last, "add-node"));
  }
  AddNodeLike(run, like, gflops);
  run.other_nodes = true;
  return absl::OkStatus();
}

absl::Status RemoveNode(ReplayedRun& run, const std::string& id) {
  SKERRY_ASSIGN_OR_RETURN(const size_t gone, OneNode(run, id));
  std::map<std::pair<size_t, size_t>, ReplayLink> links;
  for (const auto& [ends, link] : run.links) {
    if (ends.first == gone || ends.second == gone) continue;
    links[{ends.first - (ends.first > gone), ends.second - (ends.second > gone)}] = link;
  }
  run.links = std::move(links);
  run.other_nodes = true;
  run.nodes.erase(run.nodes.begin() + static_cast<std::ptrdiff_t>(gone));
  if (run.nodes.empty()) return InvalidArgument("remove-node:%s: nobody would be left", id);
  return absl::OkStatus();
}

std::vector<size_t> EndOf(const ReplayedRun& run, const std::string& name) {
  const std::vector<size_t> region = NodesIn(run, name);
  if (!region.empty()) return region;
  const std::vector<size_t> node = NodesWithPrefix(run, name);
  return node.size() == 1 ? node : std::vector<size_t>();
}

struct Ends {
  std::vector<size_t> from, to;
  bool both_ways = true;
};

// Names of regions may have '-' in them: the split where both sides are known counts.
absl::StatusOr<Ends> EndsOf(const ReplayedRun& run, const std::string& text) {
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] != '-' && text[i] != '>') continue;
    Ends ends{EndOf(run, text.substr(0, i)), EndOf(run, text.substr(i + 1)), text[i] == '-'};
    if (!ends.from.empty() && !ends.to.empty()) return ends;
  }
  std::set<std::string> regions;
  for (const ReplayNode& node : run.nodes) regions.insert(node.region);
  std::string all;
  for (const std::string& region : regions) all += ", " + region;
  return InvalidArgument("link:%s: want A-B or A>B of nodes or regions; there are %s%s", text,
                         KnownNodes(run), all);
}

absl::Status ChangeLink(ReplayedRun& run, const std::string& what) {
  const size_t colon = what.rfind(':');
  if (colon == std::string::npos)
    return InvalidArgument("link:%s: want A-B:mbps=X or A-B:rtt_ms=X", what);
  SKERRY_ASSIGN_OR_RETURN(const Ends ends, EndsOf(run, what.substr(0, colon)));
  std::string rest = what.substr(colon + 1);
  while (!rest.empty()) {
    const std::string one = rest.substr(0, rest.find(','));
    rest.erase(0, one.size() + 1);
    const size_t equals = std::min(one.find('='), one.size());
    const std::string key = one.substr(0, equals);
    if (key != "mbps" && key != "rtt_ms")
      return InvalidArgument("link: '%s' is neither mbps=X nor rtt_ms=X", one);
    SKERRY_ASSIGN_OR_RETURN(const double value,
                            PositiveNumber(one.substr(std::min(equals + 1, one.size())), key));
    const auto change = [&](size_t from, size_t to) {
      if (from == to) return;
      ReplayLink& link = run.links.at({from, to});
      (key == "mbps" ? link.bytes_per_s : link.rtt_s) =
          key == "mbps" ? value * 1e6 / 8 : value * 1e-3;
    };
    for (const size_t from : ends.from) {
      for (const size_t to : ends.to) {
        change(from, to);
        if (ends.both_ways) change(to, from);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ApplyOne(ReplayedRun& run, const std::string& change) {
  static const std::set<std::string> kKinds = {"add-node", "remove-node", "set", "link"};
  const size_t colon = std::min(change.find(':'), change.size());
  const std::string kind = change.substr(0, colon);
  const std::string what = change.substr(std::min(colon + 1, change.size()));
  if (kind == "add-node") return AddNode(run, what);
  if (kind == "remove-node") return RemoveNode(run, what);
  if (kind == "set") return ApplyConfigChange(what, run.config);
  if (kind == "link") return ChangeLink(run, what);
  const std::string nearest = NearestName(kind, kKinds);
  return InvalidArgument("'%s': want add-node:, remove-node:, set: or link:%s", change,
                         nearest.empty() ? "" : "; nearest is '" + nearest + "'");
}

}  // namespace

absl::StatusOr<ReplayedRun> WithChange(const ReplayedRun& run, const std::string& what_if) {
  ReplayedRun changed = run;
  std::string rest = what_if;
  while (!rest.empty()) {
    std::string one = rest.substr(0, rest.find(';'));
    rest.erase(0, one.size() + 1);
    one.erase(0, std::min(one.find_first_not_of(' '), one.size()));
    one.erase(one.find_last_not_of(' ') + 1);
    SKERRY_RETURN_IF_ERROR(ApplyOne(changed, one));
  }
  changed.config.nodes_min =
      std::min(changed.config.nodes_max, static_cast<int32_t>(changed.nodes.size()));
  // How many steps are simulated follows the changed τ.
  RunConfig checked = changed.config;
  checked.steps = FirstOuter(checked).inner_steps;
  SKERRY_RETURN_IF_ERROR(ValidateRunConfig(checked));
  return changed;
}

}  // namespace skerry
