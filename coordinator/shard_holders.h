// Which nodes have which shards of the training data, as far as the coordinator knows: what they
// said in its life, and that who trains stage 0 has all. Who needs a shard is told of some, so that
// it need not come from the coordinator. Nothing here is believed: whoever fetches verifies.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "wire/message/message.h"

namespace skerry {

class ShardHolders {
 public:
  static constexpr size_t kKeptMax = 64;  // of a shard
  static constexpr size_t kNamedMax = 4;

  using IsHere = std::function<bool(const NodeId&)>;
  // `object` is "shard/FILE"; false: the run has no such shard.
  bool Note(const std::vector<ShardName>& shards, const std::string& object, const NodeId& node,
            const IsHere& is_here);
  // For `asker`, of "holders/FILE": who was named first least often comes first. `have_all`: those
  // who have every shard.
  std::vector<NodeId> Name(const std::string& object, const NodeId& asker,
                           const std::vector<NodeId>& have_all, const IsHere& is_here);

 private:
  std::map<std::string, std::set<NodeId>> said_;  // by file
  std::map<NodeId, int64_t> named_;               // how often first
};

}  // namespace skerry
