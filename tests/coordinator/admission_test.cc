// Who may join, with what, how often.

#include "coordinator/admission_view.h"
#include "coordinator/evidence.h"
#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Node;
using skerry::testing::ServedRun;

TEST_CASE("Nobody is named by nothing, also where there is only one", "[coordinator]") {
  RunState state;
  state.admission.tickets["a0b71cdb"] = {};
  CHECK_FALSE(TicketNamed(state, "").ok());
  CHECK(TicketNamed(state, "a0").value() == "a0b71cdb");
  state.admission.allowed.insert(Node(1));
  CHECK_FALSE(NodeNamed(state, "").ok());
  CHECK(NodeNamed(state, Node(1).Short()).value() == Node(1));
}

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

namespace {

AdmissionOrder OrderOf(AdmissionOrder::Does does, int node, const std::string& why = "") {
  static int orders = 0;
  AdmissionOrder order;
  order.id = std::to_string(1000 + ++orders);
  order.does = does;
  if (node >= 0) order.node = Node(node);
  order.why = why;
  return order;
}

void Obey(ServedRun& run, const AdmissionOrder& order) {
  run.Handle([&](CoordinatorActor& a, Context& c) { a.Obey(c, order); });
}

using Does = AdmissionOrder::Does;

}  // namespace

TEST_CASE("Under approve a newcomer waits, journalled once, until it is admitted",
          "[coordinator]") {
  ServedRun run;
  AdmissionOrder policy = OrderOf(Does::kPolicy, -1);
  policy.policy = AdmissionPolicy::kApprove;
  Obey(run, policy);

  for (int times = 0; times < 3; ++times) run.From(0, ServedRun::HelloOf(0));
  REQUIRE(run.SentTo<Refused>(Node(0)).size() == 3);
  CHECK(run.SentTo<Refused>(Node(0)).front().waits);
  CHECK(run.state().admission.asked.contains(Node(0)));
  CHECK(run.state().nodes.empty());
  CHECK(run.journal.size() == 2);
  CHECK_FALSE(run.context.connected.contains(Node(0)));

  const AdmissionOrder admit = OrderOf(Does::kAdmit, 0);
  Obey(run, admit);
  CHECK(run.SentTo<Welcome>(Node(0)).size() == 1);
  CHECK(run.state().admission.asked.empty());
  const RunState before = run.state();
  Obey(run, admit);  // read again
  CHECK(run.state() == before);
  CHECK(run.Fold() == before);
}

TEST_CASE("Who was admitted while the coordinator was down is let in when it says Hello",
          "[coordinator]") {
  ServedRun run;
  AdmissionOrder policy = OrderOf(Does::kPolicy, -1);
  policy.policy = AdmissionPolicy::kApprove;
  Obey(run, policy);
  run.From(0, ServedRun::HelloOf(0));
  run.Restart();
  CHECK(run.state().admission.asked.contains(Node(0)));

  Obey(run, OrderOf(Does::kAdmit, 0));
  CHECK(run.SentTo<Welcome>(Node(0)).empty());  // nobody knows where it is
  run.From(0, ServedRun::HelloOf(0));
  CHECK(run.SentTo<Welcome>(Node(0)).size() == 1);
}

TEST_CASE("Under listed only nodes admitted by name come in, and others learn their name",
          "[coordinator][error]") {
  ServedRun run;
  AdmissionOrder policy = OrderOf(Does::kPolicy, -1);
  policy.policy = AdmissionPolicy::kListed;
  Obey(run, policy);
  Obey(run, OrderOf(Does::kAdmit, 1));

  run.From(0, ServedRun::HelloOf(0));
  run.From(1, ServedRun::HelloOf(1));
  REQUIRE(run.SentTo<Refused>(Node(0)).size() == 1);
  CHECK(run.SentTo<Refused>(Node(0)).front().reason.find(Node(0).Hex()) != std::string::npos);
  CHECK(run.SentTo<Welcome>(Node(1)).size() == 1);
}

TEST_CASE(
    "A denied node is put out of the plan, told why, hung up on, and stays out after a restart",
    "[coordinator][security]") {
  ServedRun run;
  run.Gather();
  const NodeId bad = run.Live(1)[0];
  AdmissionOrder deny = OrderOf(Does::kDeny, -1, "it lies");
  deny.node = bad;
  Obey(run, deny);

  CHECK_FALSE(run.state().nodes.at(bad).alive);
  CHECK(run.state().evicted.contains(bad));
  REQUIRE(run.SentTo<Refused>(bad).size() == 1);
  CHECK(run.SentTo<Refused>(bad).front().reason.find("it lies") != std::string::npos);
  CHECK(run.Live(1).size() == 1);

  run.Restart();
  run.From(bad, ServedRun::HelloOf(9));
  CHECK(run.SentTo<Refused>(bad).size() == 1);
  CHECK(run.SentTo<Welcome>(bad).empty());

  AdmissionOrder pardon = OrderOf(Does::kAdmit, -1);
  pardon.node = bad;
  Obey(run, pardon);
  CHECK_FALSE(run.state().evicted.contains(bad));
  run.From(bad, ServedRun::HelloOf(9));
  CHECK(run.SentTo<Welcome>(bad).size() == 1);
  CHECK(run.Fold() == run.state());
}

TEST_CASE("A revoked ticket admits nobody, who came with it stays", "[coordinator]") {
  ServedRun run;
  run.From(0, ServedRun::HelloOf(0));
  AdmissionOrder revoke = OrderOf(Does::kRevoke, -1, "posted");
  revoke.ticket = "0a0b";
  Obey(run, revoke);

  run.From(1, ServedRun::HelloOf(1));
  REQUIRE(run.SentTo<Refused>(Node(1)).size() == 1);
  CHECK(run.SentTo<Refused>(Node(1)).front().reason.find("posted") != std::string::npos);
  CHECK(run.state().nodes.at(Node(0)).alive);
}

TEST_CASE("An order that makes no sense is an error that names what is wrong",
          "[coordinator][error]") {
  CHECK_FALSE(ParseOrder("").ok());
  CHECK_FALSE(ParseOrder("{}").ok());
  CHECK_FALSE(ParseOrder(R"({"id":"12","do":"dance"})").ok());
  CHECK_FALSE(ParseOrder(R"({"id":"12","do":"admit","node":"xyz"})").ok());
  CHECK_FALSE(ParseOrder(R"({"id":"no hex","do":"policy","policy":"open"})").ok());
  CHECK_FALSE(ParseOrder(R"({"id":"12","do":"policy","policy":"closed"})").ok());
  CHECK_FALSE(ParseOrder(std::string(kOrderBytesMax + 1, ' ')).ok());
  AdmissionOrder deny = OrderOf(Does::kDeny, 3, "a \"quoted\" reason");
  const auto again = ParseOrder(OrderText(deny));
  REQUIRE(again.ok());
  CHECK(OrderText(*again) == OrderText(deny));
}

TEST_CASE("Evidence names the round in which an evicted node's digest differs, and who agreed",
          "[coordinator][security]") {
  ServedRun run;
  run.Gather();
  const std::vector<NodeId> replicas = run.Live(1);
  for (const NodeId& holder : replicas) {
    for (const NodeId& sender : replicas) run.From(holder, skerry::testing::Held(1, 0, sender));
  }
  run.From(replicas[0], skerry::testing::Applied(1, 0, 7));
  run.From(replicas[1], skerry::testing::Applied(1, 0, 8));
  const NodeId out = run.state().evicted.contains(replicas[0]) ? replicas[0] : replicas[1];
  REQUIRE(run.state().evicted.contains(out));

  Evidence evidence(out);
  for (const std::string& record : run.journal) REQUIRE(evidence.Add(record).ok());
  const auto json = evidence.Json();
  CHECK(json["banned"] == run.state().admission.banned.at(out));
  REQUIRE(json["differs"].size() == 1);
  CHECK(json["differs"][0]["round"] == 0);
  CHECK(json["differs"][0]["agree"] == 1);
  CHECK(EvidenceText(json).find("put out") != std::string::npos);
}
