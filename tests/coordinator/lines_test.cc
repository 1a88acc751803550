// Who shares a line is measured before the first plan, and outlives the coordinator's process.

#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Node;
using skerry::testing::ServedRun;
using skerry::testing::SmallRun;

namespace {

// Nodes 0 and 1 in one house, 2 and 3 in another; the first shares an uplink of 20 MB/s.
struct Houses {
  Houses() : run(SmallRun(), true) {
    for (int i = 0; i < 4; ++i) run.From(i, ServedRun::HelloOf(i));
    run.Pass(0.1);
  }

  static bool AreNear(const NodeId& a, const NodeId& b) {
    const auto house = [](const NodeId& node) { return node == Node(0) || node == Node(1); };
    return house(a) == house(b);
  }

  // Answers what was asked since; false: nothing.
  bool Answer() {
    std::vector<std::pair<NodeId, ProbeRequest>> asked;
    std::map<bool, int> sending;  // of which house
    for (const auto& [to, message] : run.TakeSends()) {
      if (const auto* request = std::get_if<ProbeRequest>(&message)) {
        asked.emplace_back(to, *request);
        if (request->is_transfer) ++sending[to == Node(0) || to == Node(1)];
      }
    }
    for (const auto& [from, request] : asked) {
      const bool is_first = from == Node(0) || from == Node(1);
      const bool is_near = AreNear(from, request.target);
      double rate = is_near ? 1.2e8 : 2e7;
      if (request.is_transfer) {
        CHECK_FALSE(is_near);
        CHECK_FALSE(run.state().plan);
        ++transfers;
        if (is_first) rate /= sending[true];
      }
      run.From(from, LinkReading{request.target, is_near ? 1e-3 : 0.02, rate, request.is_transfer});
    }
    return !asked.empty();
  }

  void AnswerAll() {
    while (Answer()) {
    }
    run.RunJobs();
  }

  ServedRun run;
  int transfers = 0;
};

}  // namespace

TEST_CASE("A house behind one uplink is found before the plan, and one that is not, too",
          "[coordinator]") {
  Houses houses;
  houses.AnswerAll();
  REQUIRE(houses.run.state().plan);
  CHECK(houses.transfers == 2 + 2 + 2 + 2);  // together, alone, together; the other house together
  const auto& lines = houses.run.state().lines;
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].members == std::vector{Node(0), Node(1)});
  CHECK(lines[0].Sharing().size() == 2);
  CHECK(lines[0].bytes_per_s() == 2e7);
  CHECK(lines[1].Sharing().empty());
  CHECK(houses.run.CountEvents("line") == 2);
  const auto event = houses.run.LastEvent("line");
  CHECK(event["nodes"].size() == 2);
  CHECK(event["sharing"].empty());
  CHECK(houses.run.Fold() == houses.run.state());
}

TEST_CASE("What is known of lines is not measured again by a coordinator that comes back",
          "[coordinator]") {
  Houses houses;
  while (houses.run.state().lines.empty()) REQUIRE(houses.Answer());
  const int before = houses.transfers;
  CHECK(before == 6);
  houses.run.Restart();
  for (int i = 0; i < 4; ++i) houses.run.From(i, ServedRun::HelloOf(i));
  houses.run.Pass(0.1);
  houses.AnswerAll();
  REQUIRE(houses.run.state().plan);
  CHECK(houses.run.state().lines.size() == 2);
  CHECK(houses.transfers == before + 2);
}

TEST_CASE("The plan does not wait for ever for a transfer", "[coordinator]") {
  Houses houses;
  for (int second = 0; second < 60 && !houses.run.state().plan; ++second) {
    std::vector<std::pair<NodeId, NodeId>> asked;
    for (const auto& [to, message] : houses.run.TakeSends()) {
      const auto* request = std::get_if<ProbeRequest>(&message);
      if (request == nullptr) continue;
      // A program of before answers as to any other request.
      const bool is_near = Houses::AreNear(to, request->target);
      houses.run.From(to,
                      LinkReading{request->target, is_near ? 1e-3 : 0.02, is_near ? 1.2e8 : 2e7});
    }
    houses.run.Pass(1);
    for (int i = 0; i < 4; ++i) houses.run.From(i, DeltaHeld{});  // alive
    houses.run.RunJobs();
  }
  CHECK(houses.run.state().plan);
  CHECK(houses.run.state().lines.empty());
}

TEST_CASE("A journal's word of a line that is not whole is damage", "[coordinator]") {
  RunState state;
  CHECK(state.Apply(LineRecord({{Node(0), Node(1)}, {2, 2}, {1, 1}})).ok());
  for (const LineFinding& finding : {LineFinding{}, LineFinding{{Node(0), Node(1)}, {2}, {1, 1}},
                                     LineFinding{{Node(1), Node(0)}, {2, 2}, {1, 1}}}) {
    CHECK(absl::IsDataLoss(state.Apply(LineRecord(finding))));
  }
  CHECK(state.lines.size() == 1);
  // The same house with one more takes its place.
  CHECK(state.Apply(LineRecord({{Node(0), Node(1), Node(2)}, {2, 2, 2}, {1, 1, 2}})).ok());
  CHECK(state.lines.size() == 1);
}

TEST_CASE("A transfer that nobody asked for is refused", "[coordinator]") {
  Houses houses;
  houses.AnswerAll();
  const auto lines = houses.run.state().lines;
  const size_t written = houses.run.journal.size();
  houses.run.From(0, LinkReading{Node(2), 0.02, 1e9, true});
  CHECK(houses.run.state().lines == lines);
  CHECK(houses.run.journal.size() == written);
}
