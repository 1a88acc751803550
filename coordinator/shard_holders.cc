#include "coordinator/shard_holders.h"

#include <algorithm>

namespace skerry {

bool ShardHolders::Note(const std::vector<ShardName>& shards, const std::string& object,
                        const NodeId& node, const IsHere& is_here) {
  const std::string file = object.substr(object.find('/') + 1);
  const bool is_ours = std::any_of(shards.begin(), shards.end(),
                                   [&](const ShardName& shard) { return shard.file == file; });
  if (!is_ours) return false;
  std::set<NodeId>& holders = said_[file];
  if (holders.size() == kKeptMax) {
    std::erase_if(holders, [&](const NodeId& holder) { return !is_here(holder); });
  }
  if (holders.size() < kKeptMax) holders.insert(node);
  return true;
}

std::vector<NodeId> ShardHolders::Name(const std::string& object, const NodeId& asker,
                                       const std::vector<NodeId>& have_all, const IsHere& is_here) {
  std::set<NodeId> all(have_all.begin(), have_all.end());
  const auto said = said_.find(object.substr(object.find('/') + 1));
  if (said != said_.end()) all.insert(said->second.begin(), said->second.end());
  all.erase(asker);
  std::vector<NodeId> named;
  std::copy_if(all.begin(), all.end(), std::back_inserter(named), is_here);
  const auto times = [&](const NodeId& node) {
    const auto it = named_.find(node);
    return it == named_.end() ? 0 : it->second;
  };
  std::stable_sort(named.begin(), named.end(),
                   [&](const NodeId& a, const NodeId& b) { return times(a) < times(b); });
  if (named.size() > kNamedMax) named.resize(kNamedMax);
  std::erase_if(named_, [&](const auto& entry) { return !is_here(entry.first); });
  if (!named.empty()) ++named_[named.front()];
  return named;
}

}  // namespace skerry
