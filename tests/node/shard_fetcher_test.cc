#include "node/shard_fetcher.h"

#include <catch2/catch.hpp>
#include <map>

#include "common/digest.h"
#include "common/status.h"

using namespace skerry;

namespace {

const NodeId kCoordinator = TestNodeId(7);

// Keeps shards in memory, verifying digests as a directory would.
class MemoryStore final : public ShardStore {
 public:
  bool Has(const ShardName& shard) override { return kept.contains(shard.file); }
  absl::Status Put(const ShardName& shard, const Bytes& bytes) override {
    if (DigestOf(bytes) != shard.digest) return DataLoss("shard %s is altered", shard.file);
    kept[shard.file] = bytes;
    if (shard.file == "index.json") kept.insert(elsewhere.begin(), elsewhere.end());
    return absl::OkStatus();
  }
  std::map<std::string, Bytes> kept;
  std::map<std::string, Bytes> elsewhere;  // comes with the index
};

// Runs jobs when told to; nothing else of a host is needed here.
class JobContext final : public Context {
 public:
  NodeId self() const override { return TestNodeId(1); }
  Instant now() const override { return {}; }
  Rng& rng() override { return rng_; }
  void Send(const NodeId&, SharedMessage) override {}
  TimerId StartTimer(Duration) override { return ++timers; }
  void CancelTimer(TimerId) override {}
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
  TimerId timers = 0;

 private:
  Rng rng_{1};
};

struct Fixture {
  Fixture() : content(700'000) {
    for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<uint8_t>(i * 7);
    name = {"train.bin", DigestOf(content), static_cast<int64_t>(content.size())};
  }
  // Answers every request asked so far; `spoil` flips a bit of each chunk.
  void Answer(bool spoil) {
    auto now = std::exchange(requests, {});
    for (const ObjectRequest& r : now) {
      Bytes part(content.begin() + r.offset, content.begin() + r.offset + r.length);
      if (spoil) part[0] ^= 1;
      fetcher.OnChunk(context, kCoordinator,
                      {r.object, r.offset, name.bytes, MakePayload(std::move(part))});
    }
  }
  Bytes content;
  ShardName name;
  MemoryStore store;
  JobContext context;
  std::vector<ObjectRequest> requests;
  ShardFetcher fetcher{&store, kCoordinator, [this](Context&, const NodeId& to, Message m) {
                         CHECK(to == kCoordinator);
                         requests.push_back(std::get<ObjectRequest>(m));
                       }};
};

}  // namespace

TEST_CASE("ShardFetcher: fetches what is missing in chunks and keeps it once verified") {
  Fixture f;
  f.fetcher.Start(f.context, {f.name});
  while (!f.requests.empty()) f.Answer(false);
  CHECK(f.fetcher.OnJobDone(f.context, f.context.jobs));
  CHECK(f.fetcher.Done());
  CHECK(f.store.kept["train.bin"] == f.content);
}

TEST_CASE("ShardFetcher: an altered shard is fetched again, and given up after three times") {
  Fixture f;
  f.fetcher.Start(f.context, {f.name});
  for (int attempt = 0; attempt < 3; ++attempt) {
    CHECK(f.fetcher.status().ok());
    while (!f.requests.empty()) f.Answer(true);
    CHECK(f.fetcher.OnJobDone(f.context, f.context.jobs));
  }
  CHECK(absl::IsDataLoss(f.fetcher.status()));
  CHECK(f.store.kept.empty());
}

TEST_CASE(
    "ShardFetcher: an announced size beyond the limit is refused before anything is allocated") {
  Fixture f;
  f.name.bytes = ShardFetcher::kShardBytesMax + 1;
  f.fetcher.Start(f.context, {f.name});
  CHECK_FALSE(f.fetcher.status().ok());
  CHECK(f.requests.empty());
}

TEST_CASE("ShardFetcher: a coordinator without the shard is an error that names it") {
  Fixture f;
  f.fetcher.Start(f.context, {f.name});
  f.fetcher.OnChunk(f.context, kCoordinator, {"shard/train.bin", 0, -1, nullptr});
  CHECK(absl::IsNotFound(f.fetcher.status()));
  CHECK(ErrorText(f.fetcher.status()).find("train.bin") != std::string::npos);
}

TEST_CASE("ShardFetcher: what came from elsewhere with the index is not asked for") {
  Fixture f;
  const ShardName index = {"index.json", f.name.digest, f.name.bytes};
  const ShardName other = {"other.bin", f.name.digest, f.name.bytes};
  const bool is_all = GENERATE(false, true);
  f.store.elsewhere["other.bin"] = f.content;
  if (is_all) f.store.elsewhere["train.bin"] = f.content;
  f.fetcher.Start(f.context, {f.name, other, index});
  while (!f.requests.empty()) f.Answer(false);

  CHECK(f.fetcher.OnJobDone(f.context, f.context.jobs));

  CHECK(f.fetcher.Done() == is_all);
  const size_t asked = is_all ? 0 : 3;  // chunks of train.bin
  REQUIRE(f.requests.size() == asked);
  for (const ObjectRequest& request : f.requests) CHECK(request.object == "shard/train.bin");
}
