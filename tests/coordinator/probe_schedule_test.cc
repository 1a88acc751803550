// Who is measured with whom, and when.
#include "coordinator/probe_schedule.h"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace skerry;

namespace {

std::set<NodeId> Fleet(uint32_t size) {
  std::set<NodeId> nodes;
  for (uint32_t i = 0; i < size; ++i) nodes.insert(TestNodeId(i));
  return nodes;
}

Instant At(double seconds) {
  return Instant() + Duration::Seconds(seconds);
}

// Answers everything that is asked, in the order it was asked; every pair, with its times.
std::map<ProbeSchedule::Pair, int> MeasureAll(ProbeSchedule& schedule) {
  std::map<ProbeSchedule::Pair, int> measured;
  std::vector<ProbeSchedule::Pair> running = schedule.Next(At(0));
  for (size_t i = 0; i < running.size(); ++i) {
    std::vector<ProbeSchedule::Pair> next;
    const ProbeSchedule::Pair pair = running[i];
    REQUIRE(schedule.Answered(pair, At(0), next));
    ++measured[pair];
    running.insert(running.end(), next.begin(), next.end());
  }
  return measured;
}

}  // namespace

TEST_CASE("Of a small fleet every ordered pair is measured once", "[probes]") {
  for (const uint32_t size : {2u, 3u, 8u, 33u}) {
    ProbeSchedule schedule(0);
    schedule.SetNodes(Fleet(size));
    CHECK(schedule.pairs() == size * (size - 1));
    const auto measured = MeasureAll(schedule);
    CHECK(measured.size() == size * (size - 1));
    for (const auto& [pair, times] : measured) CHECK(times == 1);
    CHECK(schedule.Complete());
  }
}

TEST_CASE("Of a large fleet every node is measured with as many, both ways", "[probes]") {
  ProbeSchedule schedule(0);
  schedule.SetNodes(Fleet(1000));
  const auto measured = MeasureAll(schedule);
  CHECK(schedule.Complete());
  std::map<NodeId, size_t> as_sender;
  for (const auto& [pair, times] : measured) {
    ++as_sender[pair.first];
    CHECK(measured.contains({pair.second, pair.first}));
  }
  REQUIRE(as_sender.size() == 1000);
  size_t fewest = 1000, most = 0;
  for (const auto& [node, targets] : as_sender) {
    fewest = std::min(fewest, targets);
    most = std::max(most, targets);
  }
  CHECK(most <= 2 * ProbeSchedule::kRings);
  CHECK(fewest >= 2 * ProbeSchedule::kRings - 3);  // two rings may give the same partner
}

TEST_CASE("A newcomer to a large fleet changes the partners of its neighbours only", "[probes]") {
  ProbeSchedule schedule(0);
  schedule.SetNodes(Fleet(1000));
  MeasureAll(schedule);
  schedule.SetNodes(Fleet(1001));
  CHECK(schedule.unsettled() <= 4 * ProbeSchedule::kRings);
}

TEST_CASE("A node is in one probe at a time, and a limit holds for all", "[probes]") {
  ProbeSchedule schedule(0);
  schedule.SetNodes(Fleet(9));
  std::set<NodeId> busy;
  const auto asked = schedule.Next(At(0));
  CHECK(asked.size() == 4);
  for (const auto& [from, target] : asked) {
    CHECK(busy.insert(from).second);
    CHECK(busy.insert(target).second);
  }

  ProbeSchedule limited(2);
  limited.SetNodes(Fleet(9));
  const auto two = limited.Next(At(0));
  CHECK(two.size() == 2);
  std::vector<ProbeSchedule::Pair> next;
  CHECK(limited.Answered(two[0], At(1), next));
  CHECK(next.size() == 1);
}

TEST_CASE("A pair that never answers is settled without a reading and holds up nobody",
          "[probes]") {
  ProbeSchedule schedule(0);
  schedule.SetNodes(Fleet(4));
  const ProbeSchedule::Pair dead{TestNodeId(0), TestNodeId(1)};
  std::vector<ProbeSchedule::Pair> settled;
  double now = 0;
  std::vector<ProbeSchedule::Pair> running = schedule.Next(At(now));
  while (!schedule.Complete() && now < 100) {
    for (size_t i = 0; i < running.size(); ++i) {
      const ProbeSchedule::Pair pair = running[i];
      if (pair == dead) continue;
      std::vector<ProbeSchedule::Pair> next;
      CHECK(schedule.Answered(pair, At(now), next));
      running.insert(running.end(), next.begin(), next.end());
    }
    now += 11;
    for (const auto& pair : schedule.GiveUp(At(now))) settled.push_back(pair);
    running = schedule.Next(At(now));
  }
  CHECK(schedule.Complete());
  CHECK(settled == std::vector<ProbeSchedule::Pair>{dead});

  schedule.AskAgain();
  CHECK_FALSE(schedule.Complete());
  CHECK(schedule.Next(At(now)) == std::vector<ProbeSchedule::Pair>{dead});
  std::vector<ProbeSchedule::Pair> next;
  CHECK(schedule.Answered(dead, At(now), next));
  CHECK(schedule.Complete());
}

TEST_CASE("An answer that nobody asked for is none, nor one of a process that was replaced",
          "[probes]") {
  ProbeSchedule schedule(0);
  schedule.SetNodes(Fleet(2));
  std::vector<ProbeSchedule::Pair> next;
  const ProbeSchedule::Pair there{TestNodeId(0), TestNodeId(1)};
  const ProbeSchedule::Pair back{TestNodeId(1), TestNodeId(0)};
  CHECK(schedule.Next(At(0)) == std::vector<ProbeSchedule::Pair>{there});
  CHECK_FALSE(schedule.Answered(back, At(0), next));
  schedule.Forget(TestNodeId(1));
  CHECK_FALSE(schedule.Answered(there, At(0), next));
  CHECK(schedule.Next(At(1)) == std::vector<ProbeSchedule::Pair>{there});
}

TEST_CASE("What the journal tells is not measured again", "[probes]") {
  ProbeSchedule schedule(0);
  schedule.NoteMeasured({TestNodeId(0), TestNodeId(1)});
  schedule.SetNodes(Fleet(2));
  CHECK(schedule.unsettled() == 1);
  schedule.NoteMeasured({TestNodeId(1), TestNodeId(0)});
  CHECK(schedule.Complete());
}

TEST_CASE("A pair that is doubted is measured again though its ends are partners no more",
          "[probes]") {
  ProbeSchedule schedule(0);
  schedule.SetNodes(Fleet(ProbeSchedule::kWholeFleet));
  MeasureAll(schedule);
  schedule.SetNodes(Fleet(3 * ProbeSchedule::kWholeFleet));
  MeasureAll(schedule);

  const auto nodes = static_cast<uint32_t>(ProbeSchedule::kWholeFleet);
  for (uint32_t i = 1; i < nodes; ++i) CHECK(schedule.MeasureAgain({TestNodeId(0), TestNodeId(i)}));
  CHECK(schedule.unsettled() == nodes - 1);
  MeasureAll(schedule);
  CHECK(schedule.Complete());
}

TEST_CASE("A pair that is doubted is measured again, twice and no more", "[probes]") {
  ProbeSchedule schedule(0);
  schedule.SetNodes(Fleet(3));
  const ProbeSchedule::Pair pair{TestNodeId(0), TestNodeId(1)};
  CHECK_FALSE(schedule.MeasureAgain(pair));  // it was not measured yet
  MeasureAll(schedule);
  CHECK_FALSE(schedule.MeasureAgain({TestNodeId(0), TestNodeId(7)}));
  for (int32_t time = 0; time < ProbeSchedule::kRepeatsMax; ++time) {
    CHECK(schedule.MeasureAgain(pair));
    CHECK_FALSE(schedule.Complete());
    CHECK(schedule.Next(At(0)) == std::vector<ProbeSchedule::Pair>{pair});
    CHECK_FALSE(schedule.MeasureAgain(pair));  // it is under way
    std::vector<ProbeSchedule::Pair> next;
    CHECK(schedule.Answered(pair, At(0), next));
    CHECK(next.empty());
    CHECK(schedule.Complete());
  }
  CHECK_FALSE(schedule.MeasureAgain(pair));
}
