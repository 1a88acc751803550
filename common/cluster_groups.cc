#include "common/cluster_groups.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/status.h"

namespace skerry {
namespace {

constexpr size_t kIdDigitsMin = 4;

std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    if (c != ' ') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, ""));
    }
  }
  if (!word.empty()) words.push_back(word);
  return words;
}

bool BeginsId(const std::string& word, const NodeId& node) {
  return word.size() >= kIdDigitsMin && node.Hex().compare(0, word.size(), word) == 0;
}

}  // namespace

absl::StatusOr<ClusterGroups> ParseClusterGroups(std::string_view text) {
  ClusterGroups groups;
  if (text == "off" || text == "measured") return groups;
  std::set<std::string> named;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(';', at), text.size());
    groups.push_back(Words(text.substr(at, end - at)));
    at = end + 1;
    if (groups.back().empty()) {
      return InvalidArgument(
          "[cluster] groups: a group of \"%s\" names nobody; want off, measured, or regions and "
          "beginnings of ids with blanks between them, groups parted by semicolons",
          std::string(text));
    }
    for (const std::string& member : groups.back()) {
      if (named.insert(member).second) continue;
      return InvalidArgument("[cluster] groups: \"%s\" is named twice; a node is in one group",
                             member);
    }
  }
  return groups;
}

int GroupOf(const ClusterGroups& groups, const NodeId& node, const std::string& region) {
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const std::string& member : groups[i]) {
      if (member == region || BeginsId(member, node)) return static_cast<int>(i);
    }
  }
  return -1;
}

}  // namespace skerry
