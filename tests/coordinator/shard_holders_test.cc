#include "coordinator/shard_holders.h"

#include <catch2/catch.hpp>

using namespace skerry;

namespace {

const std::vector<ShardName> kShards = {{"a.tok", {}, 10}, {"b.tok", {}, 10}};
bool Everybody(const NodeId&) {
  return true;
}

}  // namespace

TEST_CASE("ShardHolders: names who said so or has all, not who asks, not who is gone",
          "[coordinator][data]") {
  ShardHolders holders;
  CHECK(holders.Note(kShards, "shard/a.tok", TestNodeId(1), Everybody));
  CHECK(holders.Note(kShards, "shard/a.tok", TestNodeId(2), Everybody));
  CHECK_FALSE(holders.Note(kShards, "shard/c.tok", TestNodeId(3), Everybody));
  const auto without_2 = [](const NodeId& node) { return node != TestNodeId(2); };

  CHECK(holders.Name("holders/a.tok", TestNodeId(1), {}, Everybody) == std::vector{TestNodeId(2)});
  CHECK(holders.Name("holders/a.tok", TestNodeId(1), {}, without_2).empty());
  CHECK(holders.Name("holders/b.tok", TestNodeId(1), {TestNodeId(4), TestNodeId(1)}, Everybody) ==
        std::vector{TestNodeId(4)});
  CHECK(holders.Name("holders/c.tok", TestNodeId(1), {}, Everybody).empty());
}

TEST_CASE("ShardHolders: everybody is named first in turn, and few at a time",
          "[coordinator][data]") {
  ShardHolders holders;
  for (uint32_t i = 0; i < 10; ++i) holders.Note(kShards, "shard/a.tok", TestNodeId(i), Everybody);
  std::map<NodeId, int> first;
  for (int i = 0; i < 20; ++i) {
    const auto named = holders.Name("holders/a.tok", TestNodeId(99), {}, Everybody);
    REQUIRE(named.size() == ShardHolders::kNamedMax);
    ++first[named.front()];
  }
  REQUIRE(first.size() == 10);
  for (const auto& [node, times] : first) CHECK(times == 2);
}

TEST_CASE("ShardHolders: of one shard only so many are remembered, those gone make room",
          "[coordinator][data]") {
  ShardHolders holders;
  constexpr auto kMax = static_cast<uint32_t>(ShardHolders::kKeptMax);
  for (uint32_t i = 0; i < 2 * kMax; ++i) {
    holders.Note(kShards, "shard/a.tok", TestNodeId(i), Everybody);
  }
  const auto later = [](const NodeId& node) { return node >= TestNodeId(kMax); };
  CHECK(holders.Name("holders/a.tok", TestNodeId(999), {}, later).empty());
  holders.Note(kShards, "shard/a.tok", TestNodeId(kMax), later);
  CHECK(holders.Name("holders/a.tok", TestNodeId(999), {}, Everybody) ==
        std::vector{TestNodeId(kMax)});
}
