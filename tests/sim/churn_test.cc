#include "sim/churn.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>

namespace skerry {
namespace {

std::vector<int32_t> NodesUpTo(int32_t count) {
  std::vector<int32_t> nodes(static_cast<size_t>(count));
  std::iota(nodes.begin(), nodes.end(), 1);
  return nodes;
}

Instant AtSeconds(double s) {
  return Instant() + Duration::Seconds(s);
}

// Desktops of a company, the Failure Trace Archive's fit.
ChurnSpec Desktops() {
  ChurnSpec spec;
  spec.up = {0.55, Duration::Seconds(35.3 * 3600)};
  spec.down = {0.60, Duration::Seconds(9.34 * 3600)};
  return spec;
}

// How many of `nodes` are up at `when`.
int CountUp(const std::vector<ChurnEvent>& events, int nodes, Instant when) {
  std::map<int32_t, bool> up;
  for (const ChurnEvent& event : events) {
    if (event.at <= when) up[event.node] = event.up;
  }
  return nodes - static_cast<int>(std::count_if(up.begin(), up.end(),
                                                [](const auto& one) { return !one.second; }));
}

TEST_CASE("Churn: events are ordered, each node alternates, and the horizon ends them",
          "[sim][churn]") {
  const Duration horizon = Duration::Seconds(100 * 3600);
  const auto events = *MakeChurn(Desktops(), NodesUpTo(50), horizon, 7);
  REQUIRE(events.size() > 50);
  std::map<int32_t, bool> up;
  Instant last;
  for (const ChurnEvent& event : events) {
    CHECK(event.at >= last);
    last = event.at;
    const bool was_up = up.emplace(event.node, true).first->second;
    CHECK(event.up != was_up);
    up[event.node] = event.up;
  }
  CHECK(last <= Instant() + horizon);
}

TEST_CASE("Churn: the seed decides, and other nodes do not disturb a node's times",
          "[sim][churn]") {
  const Duration horizon = Duration::Seconds(1000 * 3600);
  const auto of_node_3 = [](const std::vector<ChurnEvent>& events) {
    std::vector<ChurnEvent> mine;
    for (const ChurnEvent& event : events) {
      if (event.node == 3) mine.push_back(event);
    }
    return mine;
  };
  const auto events = *MakeChurn(Desktops(), NodesUpTo(5), horizon, 7);
  CHECK(events == *MakeChurn(Desktops(), NodesUpTo(5), horizon, 7));
  CHECK(events != *MakeChurn(Desktops(), NodesUpTo(5), horizon, 8));
  CHECK(of_node_3(events) == *MakeChurn(Desktops(), std::vector<int32_t>{3}, horizon, 7));
}

TEST_CASE("Churn: times up follow the Weibull distribution", "[sim][churn]") {
  // Of fresh nodes, exp(-(t/scale)^shape) live beyond t: 1/e beyond the scale itself.
  const int count = 4000;
  ChurnSpec spec = Desktops();
  spec.down.scale = Duration::Seconds(1e9);  // the first outage lasts for ever
  const auto events = *MakeChurn(spec, NodesUpTo(count), Duration::Seconds(36 * 3600), 1);
  const auto share_beyond = [&](double hours) {
    return CountUp(events, count, AtSeconds(hours * 3600)) / static_cast<double>(count);
  };
  CHECK(share_beyond(35.3) == Approx(std::exp(-1)).margin(0.025));
  CHECK(share_beyond(5) == Approx(std::exp(-std::pow(5 / 35.3, 0.55))).margin(0.025));
}

TEST_CASE("Churn: a stationary population keeps its share up from the first moment on",
          "[sim][churn]") {
  const int count = 4000;
  ChurnSpec spec = Desktops();
  spec.start = ChurnStart::kStationary;
  const auto events = *MakeChurn(spec, NodesUpTo(count), Duration::Seconds(48 * 3600), 3);
  const double up = 35.3 * std::tgamma(1 + 1 / 0.55), down = 9.34 * std::tgamma(1 + 1 / 0.60);
  const double expected = up / (up + down);  // 0.81
  for (const double hours : {0.0, 1.0, 12.0, 48.0}) {
    INFO(hours);
    CHECK(CountUp(events, count, AtSeconds(hours * 3600)) / static_cast<double>(count) ==
          Approx(expected).margin(0.025));
  }
}

TEST_CASE("Churn: a machine of a trace takes the first idle node and keeps it", "[sim][churn]") {
  ChurnSpec spec;
  spec.trace = {{AtSeconds(0), 0, true},   {AtSeconds(10), 1, true}, {AtSeconds(20), 0, false},
                {AtSeconds(30), 2, true},  {AtSeconds(40), 3, true}, {AtSeconds(50), 1, false},
                {AtSeconds(999), 3, false}};
  const auto events = *MakeChurn(spec, std::vector<int32_t>{4, 5, 6}, Duration::Seconds(100), 1);
  CHECK(events == std::vector<ChurnEvent>{{AtSeconds(0), 5, false},
                                          {AtSeconds(0), 6, false},
                                          {AtSeconds(10), 5, true},
                                          {AtSeconds(20), 4, false},
                                          {AtSeconds(30), 4, true},
                                          {AtSeconds(40), 6, true},
                                          {AtSeconds(50), 5, false}});
  CHECK(MachinesAtOnce(spec.trace) == 3);
  const auto two = MakeChurn(spec, std::vector<int32_t>{4, 5}, Duration::Seconds(100), 1);
  CHECK(two.status().message() == "the trace has more than 2 machines at once, there are 2 nodes");
}

TEST_CASE("Churn: a trace may be entered later, who is there then is there at once",
          "[sim][churn]") {
  const std::vector<TraceEvent> trace = {{AtSeconds(5), 0, true},
                                         {AtSeconds(5), 1, true},
                                         {AtSeconds(8), 0, false},
                                         {AtSeconds(30), 2, true}};
  const auto rest = StartTraceAt(trace, AtSeconds(10));
  REQUIRE(rest.size() == 2);
  CHECK(rest[0].at == AtSeconds(0));
  CHECK(rest[0].machine == 1);
  CHECK(rest[1].at == AtSeconds(20));
  CHECK(rest[1].machine == 2);
}

TEST_CASE("Churn: a node that would never rest is refused, not cut short", "[sim][churn][error]") {
  ChurnSpec spec;
  spec.up = spec.down = {1, Duration::Seconds(2)};
  const auto events = MakeChurn(spec, std::vector<int32_t>{9}, Duration::Seconds(1e7), 1);
  CHECK(events.status().message() ==
        "node 9 would come and go more than 100000 times: longer times or a shorter horizon");
}

}  // namespace
}  // namespace skerry
