// Who may join, with what, how often.

#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Node;
using skerry::testing::ServedRun;

TEST_CASE("A node with a good ticket is welcomed, and its admission is journalled first",
          "[coordinator]") {
  ServedRun run;

  run.From(0, ServedRun::HelloOf(0));

  REQUIRE(run.journal.size() == 1);
  CHECK(run.Fold().nodes.contains(Node(0)));
  REQUIRE(run.SentTo<Welcome>(Node(0)).size() == 1);
  CHECK(run.SentTo<Welcome>(Node(0)).front().config == run.config);
  CHECK(run.SentTo<Welcome>(Node(0)).front().shards.size() == 1);
  CHECK(run.context.connected.contains(Node(0)));
  CHECK(run.LastEvent("admitted")["region"] == "east");
}

TEST_CASE("A bad ticket is refused with its reason and leaves no trace in the state",
          "[coordinator][error]") {
  ServedRun run;
  Hello hello = ServedRun::HelloOf(0);
  hello.ticket = "forged";

  run.From(0, hello);

  REQUIRE(run.SentTo<Refused>(Node(0)).size() == 1);
  CHECK(run.SentTo<Refused>(Node(0)).front().reason == "not a ticket of this run");
  CHECK(run.journal.empty());
  CHECK(run.state() == RunState());
}

TEST_CASE("A ticket admits as many nodes as it has uses, a node known already needs none",
          "[coordinator]") {
  ServedRun run;
  run.ticket_uses = 2;
  for (int i = 0; i < 2; ++i) run.From(i, ServedRun::HelloOf(i));

  run.From(2, ServedRun::HelloOf(2));
  CHECK(run.SentTo<Refused>(Node(2)).size() == 1);

  run.TakeSends();
  Hello again = ServedRun::HelloOf(1);
  again.ticket = "";  // long expired, say
  run.From(1, again);
  CHECK(run.SentTo<Welcome>(Node(1)).size() == 1);
  CHECK(run.state().ticket_uses.at("0a0b") == 2);

  run.Restart();
  run.From(2, ServedRun::HelloOf(2));
  CHECK(run.SentTo<Refused>(Node(2)).size() == 1);
}

TEST_CASE("A Hello said again changes nothing and writes nothing", "[coordinator]") {
  ServedRun run;
  run.From(0, ServedRun::HelloOf(0));
  const RunState before = run.state();
  const size_t records = run.journal.size();

  run.From(0, ServedRun::HelloOf(0));

  CHECK(run.state() == before);
  CHECK(run.journal.size() == records);
  CHECK(run.CountEvents("admitted") == 1);
}

TEST_CASE("Everybody hears of a newcomer, a Hello said again is answered to its sender only",
          "[coordinator]") {
  ServedRun run;
  run.From(0, ServedRun::HelloOf(0));
  run.TakeSends();

  run.From(1, ServedRun::HelloOf(1));
  REQUIRE(run.SentTo<Peers>(Node(1)).size() == 1);
  CHECK(run.SentTo<Peers>(Node(1)).front().complete);
  CHECK(run.SentTo<Peers>(Node(1)).front().peers.size() == 2);
  run.Pass(0.1);
  REQUIRE(run.SentTo<Peers>(Node(0)).size() == 1);
  const Peers told = run.SentTo<Peers>(Node(0)).front();
  CHECK_FALSE(told.complete);
  REQUIRE(told.peers.size() == 2);  // both came within the same moment
  CHECK(told.peers[1].id == Node(1));

  run.TakeSends();
  run.From(1, ServedRun::HelloOf(1));
  run.Pass(0.1);
  CHECK(run.SentTo<Peers>(Node(0)).empty());
  CHECK(run.SentTo<Peers>(Node(1)).size() == 1);
}

TEST_CASE("Everybody hears of who left", "[coordinator]") {
  ServedRun run;
  run.From(0, ServedRun::HelloOf(0));
  run.From(1, ServedRun::HelloOf(1));
  run.Pass(0.1);
  run.TakeSends();

  run.From(1, skerry::Leave{"enough"});
  run.Pass(0.1);
  REQUIRE(run.SentTo<Peers>(Node(0)).size() == 1);
  CHECK(run.SentTo<Peers>(Node(0)).front().gone == std::vector<NodeId>{Node(1)});
  CHECK(run.SentTo<Peers>(Node(1)).empty());
}

TEST_CASE("A node that moved is known under its new endpoint by everybody", "[coordinator]") {
  ServedRun run;
  run.From(0, ServedRun::HelloOf(0));
  run.From(1, ServedRun::HelloOf(1));
  run.Pass(0.1);
  run.TakeSends();
  Hello moved = ServedRun::HelloOf(1);
  moved.endpoint = "tcp://10.9.9.9:1";

  run.From(1, moved);
  run.Pass(0.1);

  const auto peers = run.SentTo<Peers>(Node(0));
  REQUIRE(peers.size() == 1);
  CHECK(peers.front().peers[0].endpoint == "tcp://10.9.9.9:1");
  CHECK(run.Fold() == run.state());
}
