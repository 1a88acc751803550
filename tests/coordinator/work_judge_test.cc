#include "coordinator/work_judge.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

using namespace skerry;

namespace {

NodeId Node(uint8_t i) {
  NodeId id;
  id.bytes[0] = i;
  return id;
}

const std::vector<NodeId> kFour = {Node(1), Node(2), Node(3), Node(4)};

// Every replica compares all others, `times` times: `off(checker, suspect, time)` is what it finds.
template <typename Off>
WorkJudge JudgeOf(const std::vector<NodeId>& replicas, int times, const Off& off) {
  WorkJudge judge;
  for (int time = 0; time < times; ++time) {
    for (const NodeId& checker : replicas) {
      std::vector<WorkJudge::Found> found;
      for (const NodeId& suspect : replicas) {
        if (checker == suspect) continue;
        const double distance = off(checker, suspect, time);
        found.push_back({suspect, distance, distance});
      }
      judge.Note(checker, found);
    }
  }
  return judge;
}

bool IsOneOf(const NodeId& node, const NodeId& a, const NodeId& b) {
  return node == a || node == b;
}

}  // namespace

TEST_CASE("WorkJudge: who makes something else is put out with figures, the honest are not",
          "[coordinator]") {
  // Between rounds they drift apart: that says nothing about any of them.
  const auto judge = JudgeOf(kFour, 6, [](const NodeId& checker, const NodeId& suspect, int time) {
    return IsOneOf(Node(4), checker, suspect) ? 1.0 : 0.1 + 0.1 * time;
  });
  for (uint8_t i = 1; i <= 3; ++i) CHECK_FALSE(judge.WhyOut(Node(i), kFour));
  const auto why = judge.WhyOut(Node(4), kFour);
  REQUIRE(why);
  CHECK(why->find(Node(1).Short() +
                  " finds it off by 1.00 of what the stage adds, 2.8 times the others") !=
        std::string::npos);
}

TEST_CASE("WorkJudge: who drifted far itself condemns nobody", "[coordinator]") {
  const auto judge = JudgeOf(kFour, 9, [](const NodeId& checker, const NodeId& suspect, int) {
    return IsOneOf(Node(2), checker, suspect) ? 0.5 : 0.3;
  });
  for (const NodeId& node : kFour) CHECK_FALSE(judge.WhyOut(node, kFour));
}

TEST_CASE("WorkJudge: one checker that lies about one node does not put it out", "[coordinator]") {
  const auto judge = JudgeOf(kFour, 9, [](const NodeId& checker, const NodeId& suspect, int) {
    return checker == Node(1) && suspect == Node(3) ? 1e6 : 0.2;
  });
  CHECK(judge.OpinionOf(Node(1), Node(3), 4)->doubts);
  CHECK_FALSE(judge.WhyOut(Node(3), kFour));
}

TEST_CASE(
    "WorkJudge: a neighbour on a third of a node's paths cannot frame it, on two thirds it can",
    "[coordinator]") {
  const auto framed = [](int of_three) {
    return JudgeOf(kFour, 9, [of_three](const NodeId&, const NodeId& suspect, int time) {
      return suspect == Node(3) && time % 3 < of_three ? 1e6 : 0.2;
    });
  };
  CHECK_FALSE(framed(1).WhyOut(Node(3), kFour));
  WorkJudge judge = framed(2);
  CHECK(judge.WhyOut(Node(3), kFour));
  judge.Forget(Node(3));
  CHECK_FALSE(judge.WhyOut(Node(3), kFour));
  CHECK(judge.ChecksOf(Node(3)) == 0);
  CHECK(judge.ChecksOf(Node(2)) == 27);
}

TEST_CASE("WorkJudge: two replicas dispute if never close to each other, nobody is put out",
          "[coordinator]") {
  const std::vector<NodeId> two = {Node(1), Node(2)};
  const auto judge = JudgeOf(two, 9, [](const NodeId&, const NodeId&, int) { return 1.0; });
  CHECK(judge.OpinionOf(Node(1), Node(2), 2)->doubts);
  CHECK_FALSE(judge.WhyOut(Node(2), two));
  const auto drifting =
      JudgeOf(two, 9, [](const NodeId&, const NodeId&, int time) { return 0.3 + 0.2 * time; });
  CHECK_FALSE(drifting.OpinionOf(Node(1), Node(2), 2)->doubts);
}

TEST_CASE("WorkJudge: few findings, small ones and those where all are far apart say nothing",
          "[coordinator]") {
  const auto of_4 = [](double off, double others) {
    return [=](const NodeId&, const NodeId& suspect, int) {
      return suspect == Node(4) ? off : others;
    };
  };
  CHECK_FALSE(JudgeOf(kFour, 2, of_4(1, 0.1)).OpinionOf(Node(1), Node(4), 4));
  CHECK_FALSE(JudgeOf(kFour, 3, of_4(1, 0.1)).WhyOut(Node(4), kFour));  // nine of twelve
  CHECK(JudgeOf(kFour, 4, of_4(1, 0.1)).WhyOut(Node(4), kFour));
  CHECK_FALSE(JudgeOf(kFour, 9, of_4(0.17, 0.001)).WhyOut(Node(4), kFour));
  CHECK_FALSE(JudgeOf(kFour, 9, of_4(1e6, 0.8)).OpinionOf(Node(1), Node(4), 4));
}
