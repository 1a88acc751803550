// Who is told of whom in a fleet that is too large for all to know all.

#include "coordinator/acquaintances.h"

#include <algorithm>

#include "pipeline/plan/route.h"
#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Node;
using skerry::testing::ServedRun;
using skerry::testing::SmallRun;

namespace {

constexpr int kMany = 60;

// Follows what each node has been told, in the order of its messages.
struct Listeners {
  std::map<NodeId, std::set<NodeId>> known;
  int64_t entries = 0;
  int strangers_probed = 0;

  void Hear(const std::vector<std::pair<NodeId, Message>>& sends) {
    for (const auto& [to, message] : sends) {
      if (const auto* peers = std::get_if<Peers>(&message)) {
        entries += static_cast<int64_t>(peers->peers.size());
        for (const Peer& peer : peers->peers) known[to].insert(peer.id);
        for (const NodeId& gone : peers->gone) known[to].erase(gone);
      }
      const auto* probe = std::get_if<ProbeRequest>(&message);
      if (probe == nullptr) continue;
      const bool both = known[to].contains(probe->target) && known[probe->target].contains(to);
      strangers_probed += both ? 0 : 1;
    }
  }
};

struct LargeFleet : ServedRun {
  explicit LargeFleet(int nodes) {
    ticket_uses = kMany;
    for (int i = 0; i < nodes; ++i) From(i, HelloOf(i));
    Listen();
  }
  std::vector<std::pair<NodeId, Message>> Listen() {
    auto sends = TakeSends();
    listeners.Hear(sends);
    return sends;
  }
  void Measure() {
    for (bool asked = true; asked;) {
      asked = false;
      for (const auto& [to, message] : Listen()) {
        const auto* request = std::get_if<ProbeRequest>(&message);
        if (request == nullptr) continue;
        asked = true;
        From(to, LinkReading{request->target, 0.02, 2e7});
      }
    }
  }
  Listeners listeners;
};

// Four nodes with a plan, in a coordinator that has returned and introduces few.
struct SmallPlan : ServedRun {
  SmallPlan() {
    ticket_uses = 6;
    Gather();
    introduces_all_max = 0;
    Restart();
    for (int i = 0; i < 6; ++i) {
      Hello hello = HelloOf(i);
      hello.plan_version = i < 4 ? 1 : 0;
      From(i, hello);
    }
    Pass(0.1);
  }
};

// The list that answered the Hello; who is measured with others is told of them later.
std::vector<Peers> Complete(std::vector<Peers> told) {
  std::erase_if(told, [](const Peers& peers) { return !peers.complete; });
  return told;
}

std::set<NodeId> Named(const std::vector<Peers>& told) {
  std::set<NodeId> named;
  for (const Peers& peers : told) {
    for (const Peer& peer : peers.peers) named.insert(peer.id);
  }
  return named;
}

std::vector<NodeId> Ascending(std::vector<NodeId> nodes) {
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace

TEST_CASE("Acquaintances: both know each other, or neither", "[coordinator][acquaintance]") {
  Acquaintances met;
  CHECK(met.Meet(Node(1), Node(2)));
  CHECK_FALSE(met.Meet(Node(2), Node(1)));
  CHECK_FALSE(met.Meet(Node(1), Node(1)));
  CHECK(met.Meet(Node(1), Node(3)));
  met.Forget(Node(1));
  CHECK(met.Of(Node(2)).empty());
  CHECK(met.Of(Node(3)).empty());
  CHECK_FALSE(met.HaveMet(Node(1), Node(2)));
}

TEST_CASE("A plan's partners: a stage's holders, neighbours of a path, and its stage-0 node",
          "[coordinator][acquaintance]") {
  PipelinePlan plan;
  plan.stages = {{0, 1, {Node(0), Node(1)}}, {1, 2, {Node(2)}}, {2, 3, {Node(3), Node(4)}}};
  plan.paths = {{{0, 0}, {1, 0}, {2, 0}}, {{0, 1}, {2, 1}}};

  const auto partners = PlanPartners(plan);

  CHECK(partners.at(Node(0)) == Ascending({Node(1), Node(2), Node(3)}));
  CHECK(partners.at(Node(1)) == Ascending({Node(0), Node(4)}));
  CHECK(partners.at(Node(2)) == Ascending({Node(0), Node(3)}));
  CHECK(partners.at(Node(3)) == Ascending({Node(0), Node(2), Node(4)}));

  plan.dead = {Node(3)};  // its neighbour fills its slot
  const auto patched = PlanPartners(plan);
  CHECK(patched.at(Node(4)) == Ascending({Node(0), Node(1), Node(2)}));
  CHECK_FALSE(patched.contains(Node(3)));
}

TEST_CASE("In a large fleet a node is told of those it is measured with, and before it is asked to",
          "[coordinator][acquaintance]") {
  LargeFleet fleet(kMany);
  fleet.Pass(0.1);
  fleet.Measure();

  CHECK(fleet.listeners.strangers_probed == 0);
  const auto known = static_cast<int64_t>(fleet.listeners.known[Node(kMany - 1)].size());
  CHECK(known < 30);  // itself, 16 partners, and those it had while fewer were here
  CHECK(known > 8);
  CHECK(fleet.listeners.entries < kMany * kMany);
}

TEST_CASE("Who was told of everybody hears that this is over, once",
          "[coordinator][acquaintance]") {
  LargeFleet fleet(40);
  fleet.Pass(0.1);
  for (const auto& [to, message] : fleet.Listen()) {
    if (const auto* peers = std::get_if<Peers>(&message)) CHECK_FALSE(peers->partial);
  }
  fleet.From(40, ServedRun::HelloOf(40));
  fleet.Pass(0.1);
  for (int i = 0; i < 40; ++i) {
    const auto told = fleet.SentTo<Peers>(Node(i));
    REQUIRE_FALSE(told.empty());
    CHECK(told.front().partial);
  }
  fleet.TakeSends();
  fleet.From(41, ServedRun::HelloOf(41));
  fleet.Pass(0.1);
  CHECK(fleet.SentTo<Peers>(Node(0)).size() <= 1);  // if it is measured with the newcomer
}

TEST_CASE("Of who goes only its acquaintances are told", "[coordinator][acquaintance]") {
  LargeFleet fleet(kMany);
  fleet.Pass(0.1);
  fleet.Measure();
  const auto known = fleet.listeners.known[Node(59)];

  fleet.From(59, skerry::Leave{"enough"});
  fleet.Pass(0.1);

  int told = 0;
  for (int i = 0; i < kMany - 1; ++i) {
    bool heard = false;
    for (const Peers& peers : fleet.SentTo<Peers>(Node(i)))
      heard |= peers.gone == std::vector<NodeId>{Node(59)};
    CHECK(heard == known.contains(Node(i)));
    told += heard ? 1 : 0;
  }
  CHECK(told < 30);
}

TEST_CASE("After a return nodes are told of their partners in the plan, others of nobody",
          "[coordinator][acquaintance]") {
  SmallPlan run;
  const auto partners = PlanPartners(*run.state().plan);
  for (int i = 0; i < 4; ++i) {
    const std::vector<NodeId>& others = partners.at(Node(i));
    std::set<NodeId> expected(others.begin(), others.end());
    expected.insert(Node(i));
    CHECK(Named(Complete(run.SentTo<Peers>(Node(i)))) == expected);
    CHECK(run.SentTo<Peers>(Node(i)).front().partial);
  }
  CHECK(Named(Complete(run.SentTo<Peers>(Node(4)))) == std::set{Node(4)});
}

TEST_CASE("Who needs a stranger asks, and both are told", "[coordinator][acquaintance]") {
  SmallPlan run;
  run.TakeSends();

  run.From(5, Acquaint{{Node(4), Node(17), Node(5)}});

  REQUIRE(run.SentTo<Peers>(Node(5)).size() == 1);
  const Peers answer = run.SentTo<Peers>(Node(5)).front();
  CHECK(Named({answer}) == std::set{Node(4)});
  CHECK(answer.gone == std::vector{Node(17)});
  CHECK_FALSE(answer.complete);
  CHECK(Named(run.SentTo<Peers>(Node(4))) == std::set{Node(5)});

  run.TakeSends();
  run.From(5, Acquaint{{Node(4)}});  // it missed the answer
  CHECK(run.SentTo<Peers>(Node(5)).size() == 1);
  CHECK(run.SentTo<Peers>(Node(4)).empty());
}

TEST_CASE("Where not all are told of all, everybody is told of the same few relays",
          "[coordinator][acquaintance]") {
  ServedRun run;
  run.introduces_all_max = 0;
  run.ticket_uses = kMany;
  run.Restart();
  for (int i = 0; i < 30; ++i) {
    Hello hello = ServedRun::HelloOf(i);
    hello.relays = i < 20;
    run.From(i, hello);
  }
  run.Pass(0.1);
  std::map<NodeId, std::set<NodeId>> relays;
  for (const auto& [to, message] : run.TakeSends()) {
    if (const auto* peers = std::get_if<Peers>(&message)) {
      for (const Peer& peer : peers->peers) {
        if (peer.relays) relays[to].insert(peer.id);
      }
    }
  }
  CHECK(relays.size() == 30);
  for (const auto& [node, known] : relays) CHECK((known == relays.at(Node(29))));
  CHECK(relays.at(Node(29)).size() == 16);
}
