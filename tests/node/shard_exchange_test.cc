// Training data from other nodes: the fetcher's side, the giver's, and what the coordinator knows.
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <utility>

#include "common/digest.h"
#include "common/status.h"
#include "node/shard_fetcher.h"
#include "node/shard_giver.h"

using namespace skerry;

namespace {

const NodeId kCoordinator = TestNodeId(100), kSelf = TestNodeId(1);
constexpr int64_t kShardBytes = 3 << 20;

class MemoryStore final : public ShardStore {
 public:
  bool Has(const ShardName& shard) override { return kept.contains(shard.file); }
  absl::Status Put(const ShardName& shard, const Bytes& bytes) override {
    if (DigestOf(bytes) != shard.digest) return DataLoss("shard %s is altered", shard.file);
    kept[shard.file] = bytes;
    return absl::OkStatus();
  }
  Payload Read(const ShardName& shard, int64_t offset, int64_t length) override {
    const auto begin = kept.at(shard.file).begin() + offset;
    return MakePayload(Bytes(begin, begin + length));
  }
  std::map<std::string, Bytes> kept;
};

class HandContext final : public Context {
 public:
  NodeId self() const override { return kSelf; }
  Instant now() const override { return {}; }
  Rng& rng() override { return rng_; }
  void Send(const NodeId&, SharedMessage) override {}
  TimerId StartTimer(Duration) override { return ++timers; }
  void CancelTimer(TimerId timer) override { cancelled = timer; }
  JobId Submit(Job job) override {
    job.run();
    return ++jobs;
  }
  void Persist(std::string) override {}
  void Event(const std::string&, const std::string&) override {}
  void ConnectPeer(const NodeId&, const std::string&) override {}
  void DisconnectPeer(const NodeId&) override {}
  void Stop(int, const std::string&) override {}
  JobId jobs = 0;
  TimerId timers = 0, cancelled = 0;

 private:
  Rng rng_{1};
};

Bytes Content(int salt) {
  Bytes bytes(kShardBytes);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7 + i / 251 + salt);
  return bytes;
}

// A fetcher among holders that are honest, lie, are silent, or have nothing.
struct Exchange {
  enum class Manner { kHonest, kLies, kSilent, kEmpty, kSendsNothing };

  explicit Exchange(int shards = 1) {
    for (int i = 0; i < shards; ++i) {
      const std::string file = std::to_string(i) + ".tok";
      content[file] = Content(i);
      names.push_back({file, DigestOf(content[file]), kShardBytes});
    }
    Bytes index(100, 1);
    names.push_back({"index.json", DigestOf(index), 100});
    content["index.json"] = index;
  }

  Payload Holders() const {
    Bytes ids;
    for (const NodeId& holder : named) {
      ids.insert(ids.end(), holder.bytes.begin(), holder.bytes.end());
    }
    return MakePayload(ids);
  }

  ObjectChunk Answer(const NodeId& to, const ObjectRequest& r) {
    if (r.object.starts_with(kHoldersPrefix)) {
      return {r.object, 0, 32 * std::ssize(named), Holders()};
    }
    const Manner manner = to == kCoordinator ? Manner::kHonest : manners.at(to);
    if (manner == Manner::kEmpty) return {r.object, r.offset, -1, nullptr};
    const Bytes& all = content.at(r.object.substr(std::strlen(kShardPrefix)));
    const auto total = std::ssize(all);
    if (manner == Manner::kSendsNothing) return {r.object, r.offset, total, nullptr};
    Bytes part(all.begin() + r.offset, all.begin() + r.offset + r.length);
    if (manner == Manner::kLies) part[0] ^= 1;
    served[to] += r.length;
    return {r.object, r.offset, total, MakePayload(std::move(part))};
  }

  // Until nothing happens any more; timers run out when nothing else does.
  void Run() {
    fetcher.Start(context, names);
    for (int turn = 0; turn < 10'000 && fetcher.status().ok(); ++turn) {
      if (sent.empty()) {
        if (fetcher.Done()) return;
        if (!fetcher.OnTimer(context, context.timers)) return;
        ++timeouts;
        continue;
      }
      const auto [to, message] = sent.front();
      sent.erase(sent.begin());
      if (const auto* chunk = std::get_if<ObjectChunk>(&message)) {
        CHECK(to == kCoordinator);
        CHECK(SizeOf(chunk->values) == 0);
        said.push_back(chunk->object);
        continue;
      }
      const bool is_silent = to != kCoordinator && manners.at(to) == Manner::kSilent;
      if (is_silent) continue;
      fetcher.OnChunk(context, to, Answer(to, std::get<ObjectRequest>(message)));
      if (context.jobs > jobs_done) CHECK(fetcher.OnJobDone(context, ++jobs_done));
    }
  }

  std::vector<ShardName> names;
  std::map<std::string, Bytes> content;
  std::map<NodeId, Manner> manners;
  std::vector<NodeId> named;
  MemoryStore store;
  HandContext context;
  std::vector<std::pair<NodeId, Message>> sent;
  std::map<NodeId, int64_t> served;
  std::vector<std::string> said;
  int timeouts = 0;
  JobId jobs_done = 0;
  ShardFetcher fetcher{&store, kCoordinator, [this](Context&, const NodeId& to, Message m) {
                         sent.emplace_back(to, std::move(m));
                       }};
};

using Manner = Exchange::Manner;
const NodeId kFirst = TestNodeId(2), kSecond = TestNodeId(3);

}  // namespace

TEST_CASE("Shards of peers: a holder gives what the coordinator need not, and that is said",
          "[node][data]") {
  Exchange e(3);
  e.named = {kFirst};
  e.manners[kFirst] = Manner::kHonest;

  e.Run();

  REQUIRE(e.fetcher.Done());
  CHECK(e.store.kept == e.content);
  CHECK(e.served[kCoordinator] == 100);  // the index
  CHECK(e.served[kFirst] == 3 * kShardBytes);
  CHECK(e.fetcher.from_peers() == 3 * kShardBytes);
  CHECK(e.said == std::vector<std::string>{"shard/2.tok", "shard/1.tok", "shard/0.tok"});
}

TEST_CASE("Shards of peers: who has nothing, is silent, sends nothing or lies costs time only",
          "[node][data][error]") {
  Exchange e(4);
  e.named = {kFirst, kSecond};
  e.manners[kFirst] =
      GENERATE(Manner::kEmpty, Manner::kSilent, Manner::kSendsNothing, Manner::kLies);
  e.manners[kSecond] = GENERATE(Manner::kHonest, Manner::kEmpty, Manner::kLies);

  e.Run();

  REQUIRE(e.fetcher.Done());
  CHECK(e.store.kept == e.content);
  // Who lies or is silent does so once.
  if (e.manners[kFirst] == Manner::kLies) CHECK(e.served[kFirst] == kShardBytes);
  CHECK(e.timeouts <= 1);
  if (e.manners[kSecond] == Manner::kHonest) CHECK(e.served[kSecond] >= 3 * kShardBytes);
}

TEST_CASE("Shards of peers: the coordinator's names are not believed", "[node][data][error]") {
  Exchange e;
  e.named.assign(100, kSelf);
  e.named[50] = kCoordinator;
  e.Run();
  REQUIRE(e.fetcher.Done());
  CHECK(e.served[kCoordinator] == kShardBytes + 100);

  Exchange odd;
  odd.fetcher.Start(odd.context, odd.names);
  odd.store.kept["index.json"] = {};
  odd.fetcher.Start(odd.context, odd.names);
  odd.sent.clear();
  CHECK(odd.fetcher.OnChunk(odd.context, kCoordinator,
                            {"holders/0.tok", 0, 31, MakePayload(Bytes(31, 9))}));
  REQUIRE(odd.sent.size() == 4);
  for (const auto& [to, message] : odd.sent) CHECK(to == kCoordinator);
}

TEST_CASE("Shards of peers: strangers' chunks and late ones change nothing",
          "[node][data][error]") {
  Exchange e;
  e.store.kept["index.json"] = {};
  e.named = {kFirst};
  e.fetcher.Start(e.context, e.names);
  const ObjectChunk part = {"shard/0.tok", 0, kShardBytes, MakePayload(Bytes(100))};
  CHECK_FALSE(e.fetcher.OnChunk(e.context, kSecond, part));
  CHECK_FALSE(e.fetcher.OnChunk(e.context, kSecond, {"holders/0.tok", 0, 32, e.Holders()}));
  REQUIRE(e.fetcher.OnChunk(e.context, kCoordinator, {"holders/0.tok", 0, 32, e.Holders()}));
  CHECK_FALSE(e.fetcher.OnChunk(e.context, kSecond, part));
  CHECK_FALSE(e.fetcher.OnChunk(e.context, kCoordinator, part));
  ObjectChunk too_much = part;
  too_much.values = MakePayload(Bytes(kShardBytes + 1));
  CHECK_FALSE(e.fetcher.OnChunk(e.context, kFirst, too_much));
  CHECK(e.fetcher.OnChunk(e.context, kFirst, part));
}

TEST_CASE("Shards of peers: those who begin together begin at different places", "[node][data]") {
  std::vector<std::string> first;
  for (size_t part = 0; part < 4; ++part) {
    Exchange e(8);
    e.store.kept["index.json"] = {};
    e.fetcher.Start(e.context, e.names, part, 4);
    REQUIRE_FALSE(e.sent.empty());
    first.push_back(std::get<ObjectRequest>(e.sent.back().second).object);
  }
  CHECK(first == std::vector<std::string>{"holders/7.tok", "holders/1.tok", "holders/3.tok",
                                          "holders/5.tok"});
}

TEST_CASE("Shards of peers: a coordinator that restarts is asked again", "[node][data]") {
  Exchange e;
  e.store.kept["index.json"] = {};
  e.fetcher.Start(e.context, e.names);
  e.sent.clear();
  e.fetcher.Resume(e.context);
  REQUIRE(e.sent.size() == 1);
  CHECK(std::get<ObjectRequest>(e.sent[0].second).object == "holders/0.tok");
}

TEST_CASE("Shards of peers: starting over forgets what was being kept", "[node][data]") {
  Exchange e(2);
  e.store.kept["index.json"] = {};
  e.fetcher.Start(e.context, e.names);
  e.fetcher.OnChunk(e.context, kCoordinator, {"holders/1.tok", 0, 0, nullptr});
  ObjectChunk whole = {"shard/1.tok", 0, kShardBytes, MakePayload(e.content.at("1.tok"))};
  REQUIRE(e.fetcher.OnChunk(e.context, kCoordinator, whole));
  const JobId job = e.context.jobs;

  e.fetcher.Start(e.context, e.names, 1, 2);  // of other shards first

  CHECK(e.fetcher.OnJobDone(e.context, job));
  CHECK_FALSE(e.fetcher.Done());
  e.sent.clear();
  e.fetcher.Resume(e.context);
  CHECK(std::get<ObjectRequest>(e.sent.at(0).second).object == "holders/0.tok");
}

TEST_CASE("ShardGiver: gives parts of what it has, to nobody without end", "[node][data][error]") {
  Exchange e(2);
  MemoryStore store;
  store.kept["0.tok"] = e.content.at("0.tok");
  ShardGiver giver(&store);
  const auto ask = [&](const NodeId& to, const std::string& object, int64_t offset,
                       int64_t length) {
    return giver.Answer(e.names, to, {object, offset, length});
  };

  const ObjectChunk part = ask(kFirst, "shard/0.tok", 1000, 50);
  CHECK(part.total_bytes == kShardBytes);
  CHECK(part.offset == 1000);
  CHECK(*part.values ==
        Bytes(store.kept["0.tok"].begin() + 1000, store.kept["0.tok"].begin() + 1050));
  CHECK(SizeOf(ask(kFirst, "shard/0.tok", kShardBytes - 10, 100).values) == 10);
  CHECK(ask(kFirst, "shard/0.tok", kShardBytes, 1).total_bytes == -1);
  CHECK(ask(kFirst, "shard/1.tok", 0, 1).total_bytes == -1);  // it has not that one
  CHECK(ask(kFirst, "shard/../run.toml", 0, 1).total_bytes == -1);

  const int64_t all = 2 * kShardBytes + 100;
  int64_t given = 60;
  while (true) {
    const ObjectChunk chunk = ask(kFirst, "shard/0.tok", 0, kObjectChunkBytesMax);
    if (chunk.total_bytes < 0) break;
    given += SizeOf(chunk.values);
    REQUIRE(given <= ShardGiver::kTimesMax * all);
  }
  CHECK(given + kObjectChunkBytesMax > ShardGiver::kTimesMax * all);
  CHECK(ask(kSecond, "shard/0.tok", 0, 1).total_bytes == kShardBytes);
}
