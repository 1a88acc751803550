// A coordinator that dials nodes back before others hear of them.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "coordinator/coordinator_actor.h"
#include "coordinator/listings.h"

using namespace skerry;

namespace {

const NodeId kSelf = TestNodeId(99);

// Time stands still until told; what was said and asked is kept.
class ReachContext final : public Context {
 public:
  NodeId self() const override { return kSelf; }
  Instant now() const override { return now_; }
  Rng& rng() override { return rng_; }
  void Send(const NodeId& to, SharedMessage message) override { sends.emplace_back(to, *message); }
  TimerId StartTimer(Duration) override { return ++timer; }
  void CancelTimer(TimerId) override {}
  JobId Submit(Job) override { return 1; }
  void Persist(std::string record) override { journal.push_back(std::move(record)); }
  void Event(const std::string& kind, const std::string&) override { events.push_back(kind); }
  void ConnectPeer(const NodeId&, const std::string&) override {}
  void DisconnectPeer(const NodeId&) override {}
  void Stop(int, const std::string&) override {}
  void TryReach(const NodeId& node, const std::vector<std::string>& listens) override {
    dialled.emplace_back(node, listens);
  }
  void Pass(double seconds) { now_ = now_ + Duration::Seconds(seconds); }

  std::vector<std::pair<NodeId, Message>> sends;
  std::vector<std::pair<NodeId, std::vector<std::string>>> dialled;
  std::vector<std::string> journal, events;
  TimerId timer = 0;

 private:
  Instant now_;
  Rng rng_{1};
};

struct Run {
  Run() { Start(); }
  void Start() {
    CoordinatorOptions options;
    options.config.nodes_min = 9;
    options.tests_reach = true;
    options.journal = journal;
    options.verify_ticket = [](const std::string&) -> absl::StatusOr<AdmittedTicket> {
      return AdmittedTicket{"t", 100};
    };
    auto created = CoordinatorActor::Create(std::move(options));
    REQUIRE(created.ok());
    actor = *std::move(created);
    context = ReachContext();
    actor->OnStart(context);
  }
  void From(const NodeId& node, Message message) {
    actor->OnMessage(context, node, message);
    journal.insert(journal.end(), context.journal.begin(), context.journal.end());
    context.journal.clear();
  }
  void Join(int node, bool relays = false) {
    Hello hello;
    hello.endpoint = "tcp://[::]:77";
    hello.listens = {"tcp://192.168.0.4:77"};
    hello.relays = relays;
    From(TestNodeId(static_cast<uint32_t>(node)), hello);
  }
  void Found(int node, const std::string& answered) {
    const NodeId id = TestNodeId(static_cast<uint32_t>(node));
    Reachability found{id, "203.0.113.9", {{"tcp://203.0.113.9:77", false}}};
    if (!answered.empty()) found.tried = {{answered, true}};
    From(kSelf, found);
  }
  // Everybody's lists of peers, as they were told last.
  void TellPeers() { actor->OnTimer(context, context.timer); }
  template <typename M>
  std::vector<M> SentTo(int node) const {
    std::vector<M> found;
    for (const auto& [to, message] : context.sends) {
      if (const M* m = std::get_if<M>(&message);
          m != nullptr && to == TestNodeId(static_cast<uint32_t>(node)))
        found.push_back(*m);
    }
    return found;
  }
  const NodeRecord& Node(int node) const {
    return actor->state().nodes.at(TestNodeId(static_cast<uint32_t>(node)));
  }

  std::vector<std::string> journal;
  ReachContext context;
  std::unique_ptr<CoordinatorActor> actor;
};

}  // namespace

TEST_CASE("Reach: others hear of a node when it was dialled back, and of where it answered",
          "[coordinator][reach]") {
  Run run;
  run.Join(1);
  REQUIRE(run.context.dialled.size() == 1);
  CHECK(run.context.dialled[0].second ==
        std::vector<std::string>{"tcp://[::]:77", "tcp://192.168.0.4:77"});
  CHECK(run.SentTo<Welcome>(1).size() == 1);
  CHECK(run.SentTo<Peers>(1).empty());
  run.Found(1, "tcp://203.0.113.9:77");
  REQUIRE(run.SentTo<Peers>(1).size() == 1);
  CHECK(run.SentTo<Peers>(1)[0].peers[0].endpoint == "tcp://203.0.113.9:77");
  CHECK(run.SentTo<Reachability>(1).size() == 1);
  run.Join(2);
  run.Found(2, "");
  const auto peers = run.SentTo<Peers>(2);
  REQUIRE(peers.size() == 1);
  CHECK(peers[0].peers[0].endpoint == "tcp://203.0.113.9:77");
  CHECK(peers[0].peers[1].endpoint.empty());
  CHECK(run.context.events ==
        std::vector<std::string>{"admitted", "reachable", "admitted", "unreachable"});
  const auto nodes = NodesJson(run.actor->state(), {}, nullptr);
  CHECK(nodes[0]["reachable"] == "yes");
  CHECK(nodes[1]["reachable"] == "no");
}

TEST_CASE("Reach: a forged result, or one nobody asked for, changes nothing",
          "[coordinator][reach]") {
  Run run;
  run.Join(1);
  Reachability forged{TestNodeId(1), "1.2.3.4", {{"tcp://1.2.3.4:1", true}}};
  run.From(TestNodeId(1), forged);
  CHECK_FALSE(run.Node(1).IsTested());
  CHECK(run.actor->refused() == 1);
  forged.node = TestNodeId(7);
  run.From(kSelf, forged);
  CHECK(run.actor->refused() == 2);
}

TEST_CASE("Reach: what was found outlives the coordinator, and is not waited for again",
          "[coordinator][reach]") {
  Run run;
  run.Join(1);
  run.Found(1, "");
  run.Join(2, true);
  run.Found(2, "tcp://203.0.113.9:77");
  run.Join(3);
  run.Found(3, "");
  const auto pairs = RelayedPairs(run.actor->state());
  REQUIRE(pairs.size() == 1);
  CHECK((pairs[0].a == TestNodeId(1) && pairs[0].b == TestNodeId(3)));
  CHECK(pairs[0].relay == TestNodeId(2));
  const RunState before = run.actor->state();
  run.Start();
  CHECK(run.actor->state() == before);
  run.Join(1);
  CHECK(run.SentTo<Peers>(1).size() == 1);  // at once
  CHECK(run.context.dialled.size() == 1);   // and tried all the same
  Hello moved;
  moved.endpoint = "tcp://[::]:78";
  run.From(TestNodeId(2), moved);
  CHECK(run.SentTo<Peers>(2).empty());
  CHECK_FALSE(run.Node(2).IsTested());
}

TEST_CASE("Reach: one failure of a node that answered before does not count",
          "[coordinator][reach]") {
  Run run;
  run.Join(1);
  run.Found(1, "tcp://203.0.113.9:77");
  run.Found(1, "");
  CHECK(run.context.dialled.size() == 2);
  CHECK_FALSE(run.Node(1).endpoint.empty());
  SECTION("it answers again") {
    run.Found(1, "tcp://203.0.113.9:77");
    run.Found(1, "");
    CHECK_FALSE(run.Node(1).endpoint.empty());
  }
  SECTION("it does not") {
    run.Found(1, "");
    CHECK(run.Node(1).endpoint.empty());
  }
}
