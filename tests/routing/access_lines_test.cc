// Who may share a line, what a test of it shows, and what the planner makes of that.
#include "routing/access_lines.h"

#include <catch2/catch.hpp>
#include <set>

#include "routing/evaluator.h"
#include "routing/node_lines.h"

using namespace skerry;

namespace {

constexpr double kMbit = 1e6 / 8;

NodeId N(uint32_t i) {
  return TestNodeId(i + 1);
}

// Homes of so many nodes each, 2 ms and 1 Gbit/s inside; 40 ms and `mbps` between them.
LinkMatrix Homes(const std::vector<uint32_t>& sizes, double near_ms = 2, double mbps = 50) {
  std::vector<NodeId> nodes;
  std::vector<size_t> home;
  for (size_t h = 0; h < sizes.size(); ++h) {
    for (uint32_t i = 0; i < sizes[h]; ++i) {
      nodes.push_back(N(static_cast<uint32_t>(nodes.size())));
      home.push_back(h);
    }
  }
  LinkMatrix links(nodes);
  for (size_t a = 0; a < nodes.size(); ++a) {
    for (size_t b = 0; b < nodes.size(); ++b) {
      if (a == b) continue;
      const bool is_near = home[a] == home[b];
      links.Set(nodes[a], nodes[b], (is_near ? near_ms : 40) * 1e-3,
                (is_near ? 1000 : mbps) * kMbit);
    }
  }
  return links;
}

}  // namespace

TEST_CASE("LineTestsOf: the houses of a fleet, each member to a target of its own", "[routing]") {
  const auto tests = LineTestsOf(Homes({3, 1, 2, 1}), {});
  REQUIRE(tests.size() == 2);
  CHECK(tests[0].members == std::vector{N(0), N(1), N(2)});
  CHECK(tests[1].members == std::vector{N(4), N(5)});
  for (const LineTest& test : tests) {
    REQUIRE(test.targets.size() == test.members.size());
    std::set<NodeId> ends(test.members.begin(), test.members.end());
    for (const NodeId& target : test.targets) CHECK(ends.insert(target).second);
    CHECK(test.rates == std::vector<double>(test.members.size(), 50 * kMbit));
  }
  // Three members, three other houses: no two targets of one house.
  CHECK(std::set(tests[0].targets.begin(), tests[0].targets.end()) == std::set{N(3), N(4), N(6)});
}

TEST_CASE("LineTestsOf: nobody near, or nobody far, is no test", "[routing]") {
  CHECK(LineTestsOf(Homes({1, 1, 1}), {}).empty());
  CHECK(LineTestsOf(Homes({4}), {}).empty());
  CHECK(LineTestsOf(Homes({2}), {}).empty());
  CHECK(LineTestsOf(LinkMatrix(std::vector<NodeId>()), {}).empty());
  // One target for two members: who has none is left out, and one alone shows nothing.
  CHECK(LineTestsOf(Homes({2, 1}), {}).empty());
  // Of a large house so many.
  const auto tests = LineTestsOf(Homes({12, 12}), {});
  REQUIRE(tests.size() == 2);
  CHECK(tests[0].members.size() == kLineMembersMax);
}

TEST_CASE("LineTestsOf: machines of one network are a house beside others near them", "[routing]") {
  // Two networks of two on one campus, 2 ms apart, and two nodes elsewhere.
  LinkMatrix links = Homes({4, 1, 1});
  for (const auto& [a, b] : {std::pair{0, 1}, {1, 0}, {2, 3}, {3, 2}}) links.At(a, b).rtt_s = 5e-4;
  const auto tests = LineTestsOf(links, {});
  REQUIRE(tests.size() == 2);
  CHECK(tests[0].members == std::vector{N(0), N(1)});
  CHECK(tests[1].members == std::vector{N(2), N(3)});
}

TEST_CASE("LineTestsOf: a target is not so slow that nothing is shared on the way", "[routing]") {
  LinkMatrix links = Homes({2, 2, 1});
  for (int32_t member = 0; member < 2; ++member) links.At(member, 4).bytes_per_s = 5 * kMbit;
  const auto tests = LineTestsOf(links, {});
  REQUIRE(tests.size() == 2);
  for (const NodeId& target : tests[0].targets) CHECK(target != N(4));
}

TEST_CASE("LineTestsOf: no two targets behind one line that is known", "[routing]") {
  // Two houses with lines of their own, and a faster one that shares.
  LinkMatrix links = Homes({2, 2, 2});
  for (int32_t member = 0; member < 2; ++member) {
    for (const int32_t target : {4, 5}) links.At(member, target).bytes_per_s = 80 * kMbit;
  }
  const auto targets = [&] {
    const auto tests = LineTestsOf(links, {});
    REQUIRE(tests.size() == 3);
    return std::set(tests[0].targets.begin(), tests[0].targets.end());
  };
  CHECK(targets() == std::set{N(4), N(5)});
  SetLines({{{N(4), N(5)}, {80, 80}, {40, 40}}}, &links);
  CHECK(targets() == std::set{N(4), N(2)});
}

TEST_CASE("LineTestsOf: one public address is one router, however slow its radio", "[routing]") {
  const LinkMatrix links = Homes({2, 2, 1}, 12);  // too far to be near each other
  CHECK(LineTestsOf(links, {}).empty());
  const std::map<NodeId, std::string> addresses = {
      {N(0), "203.0.113.1"}, {N(1), "203.0.113.1"}, {N(2), "203.0.113.2"}, {N(3), "203.0.113.3"}};
  const auto tests = LineTestsOf(links, addresses);
  REQUIRE(tests.size() == 1);
  CHECK(tests[0].members == std::vector{N(0), N(1)});
  // Seen at one address from two ends of the world is a relay of somebody's, not a house.
  const std::map<NodeId, std::string> far = {{N(0), "203.0.113.1"}, {N(4), "203.0.113.1"}};
  CHECK(LineTestsOf(links, far).empty());
}

TEST_CASE("LineTestsOf: one of each group sends to one of each other, where there are three",
          "[routing]") {
  LinkMatrix links = Homes({2, 3, 1});
  links.At(2, 5).bytes_per_s = 80 * kMbit;
  links.At(2, 1).bytes_per_s = 60 * kMbit;
  const auto fan_outs = [&] {
    std::vector<LineTest> tests = LineTestsOf(links, {}, true);
    CHECK(LineTestsOf(links, {}).size() + 3 == tests.size());
    std::erase_if(tests, [](const LineTest& test) { return !test.FansOut(); });
    return tests;
  };
  const std::vector<LineTest> tests = fan_outs();
  REQUIRE(tests.size() == 3);  // the largest group first
  CHECK(tests[0].members == std::vector{N(2)});
  CHECK(tests[0].targets == std::vector{N(5), N(1)});
  CHECK(tests[0].rates == std::vector{80 * kMbit, 60 * kMbit});
  CHECK(tests[0].SenderTo(1) == N(2));
  CHECK(tests[1].members == std::vector{N(0)});
  CHECK(tests[2].members == std::vector{N(5)});
  // Of who shares a line it is known what that carries; the third of the house does not.
  SetLines({{{N(2), N(3), N(4)}, {40, 40, 40}, {20, 20, 40}}}, &links);
  CHECK(fan_outs()[0].members == std::vector{N(4)});
  CHECK(LineTestsOf(Homes({3, 3}), {}, true).size() == LineTestsOf(Homes({3, 3}), {}).size());
}

TEST_CASE("SetLines: what one carries to several its neighbours do, if they share nothing",
          "[routing]") {
  LinkMatrix links = Homes({4, 1, 1});
  for (int32_t a = 0; a < 4; ++a) {
    for (int32_t b = 0; b < 4; ++b)
      if (a != b) links.At(a, b).rtt_s = 5e-4;
  }
  const LineFinding fan_out{{N(2)}, {50}, {150}};
  CHECK(fan_out.FansOut());
  CHECK(fan_out.Sharing().empty());
  CHECK(fan_out.bytes_per_s() == 150);
  CHECK(LineFinding{{N(2)}, {50}, {40}}.bytes_per_s() == 50);
  // Told before the house is, which has grown since.
  SetLines({fan_out, {{N(0), N(1), N(2), N(3)}, {50, 50, 50, 50}, {25, 25, 50, 50}}}, &links);
  CHECK(links.LineRate(links.LineOf(0)) == 50);  // shared
  CHECK(links.LineRate(links.LineOf(1)) == 50);
  CHECK(links.LineRate(links.LineOf(2)) == 150);
  CHECK(links.LineRate(links.LineOf(3)) == 150);
  CHECK(links.LineOf(2) != links.LineOf(3));
  CHECK(links.LineOf(4) == -1);
}

TEST_CASE("LineBytes: half a second of the line, within bounds", "[routing]") {
  CHECK(LineBytes(80 * kMbit) == 5'000'000);
  CHECK(LineBytes(1) == kLineBytesMin);
  CHECK(LineBytes(1e12) == kLineBytesMax);
}

TEST_CASE("LineFinding: who carries less together shares, and one alone does not", "[routing]") {
  const std::vector members{N(0), N(1), N(2)};
  const LineFinding apart{members, {40, 40, 40}, {39, 41, 33}};
  CHECK(apart.IsWhole());
  CHECK(apart.Sharing().empty());
  CHECK(apart.bytes_per_s() == 0);
  const LineFinding two{members, {40, 40, 90}, {20, 21, 88}};
  CHECK(two.Sharing() == std::vector<size_t>{0, 1});
  CHECK(two.bytes_per_s() == 41);
  // What one carries alone the line carries, whatever was lost of it together.
  const LineFinding worse{members, {40, 40, 90}, {10, 12, 88}};
  CHECK(worse.bytes_per_s() == 40);
  // Three readings of one line, one of them lucky.
  const LineFinding noisy{members, {57, 41, 39}, {12, 13, 14}};
  CHECK(noisy.bytes_per_s() == 41);
  const LineFinding busy{members, {40, 40, 40}, {40, 4, 40}};
  CHECK(busy.Sharing().empty());
}

TEST_CASE("LineFinding: what is not whole is known", "[routing]") {
  CHECK_FALSE(LineFinding{}.IsWhole());
  CHECK(LineFinding{{N(0)}, {1}, {1}}.IsWhole());  // what one carries to several
  CHECK_FALSE(LineFinding{{N(0)}, {1}, {}}.IsWhole());
  CHECK_FALSE(LineFinding{{N(0)}, {1}, {-1}}.IsWhole());
  CHECK_FALSE(LineFinding{{N(0), N(1)}, {1}, {1, 1}}.IsWhole());
  CHECK_FALSE(LineFinding{{N(0), N(1)}, {1, 1}, {1, 0}}.IsWhole());
  CHECK_FALSE(LineFinding{{N(0), N(1)}, {1, NAN}, {1, 1}}.IsWhole());
  CHECK_FALSE(LineFinding{{N(1), N(0)}, {1, 1}, {1, 1}}.IsWhole());
  CHECK_FALSE(LineFinding{{N(0), N(0)}, {1, 1}, {1, 1}}.IsWhole());
}

TEST_CASE("SetLines: who shares has one number, who was tested another, who was not none",
          "[routing]") {
  LinkMatrix links = Homes({3, 2, 1});
  SetLines({{{N(0), N(1), N(2)}, {50, 50, 50}, {25, 25, 50}}, {{N(3), N(4)}, {50, 50}, {50, 50}}},
           &links);
  CHECK(links.LineOf(0) == links.LineOf(1));
  std::set<int32_t> lines;
  for (int32_t node = 1; node < 5; ++node) {
    CHECK(links.LineOf(node) >= 0);
    CHECK(lines.insert(links.LineOf(node)).second);
  }
  CHECK(links.LineOf(5) == -1);
  CHECK(links.LineRate(links.LineOf(0)) == 50);
  CHECK(links.LineRate(links.LineOf(2)) == 0);
}

TEST_CASE("SetLines: a link is no faster than its line, unless most members read so", "[routing]") {
  // 0, 1 and 2 in one house, whose line was found to carry 1 MB/s.
  LinkMatrix links = Homes({3, 1, 1}, 0, 8);
  SetLines({{{N(0), N(1), N(2)}, {1e6, 1e6, 1e6}, {3e5, 3e5, 4e5}}}, &links);
  const std::vector<double> one_lucky = {0.5, 1, 2}, most = {0.5, 0.5, 2};
  Fleet fleet;
  fleet.gflops.assign(5, 1);
  fleet.latency_s.assign(25, 0);
  fleet.wire_s.assign(25, 0.1);  // a payload of 1 MB
  for (int32_t member = 0; member < 3; ++member) {
    const auto i = static_cast<size_t>(member);
    fleet.wire_s[fleet.Pair(member, 3)] = fleet.wire_s[fleet.Pair(3, member)] = one_lucky[i];
    fleet.wire_s[fleet.Pair(member, 4)] = fleet.wire_s[fleet.Pair(4, member)] = most[i];
  }
  SetLines(links, {0, 1, 2, 3, 4}, 1e6, &fleet);
  for (const double both : {0, 1}) {
    const auto read = [&](int32_t member, int32_t other) {
      return fleet.wire_s[both > 0 ? fleet.Pair(member, other) : fleet.Pair(other, member)];
    };
    CHECK(std::vector{read(0, 3), read(1, 3), read(2, 3)} == std::vector<double>{1, 1, 2});
    CHECK(std::vector{read(0, 4), read(1, 4), read(2, 4)} == most);
    CHECK(read(0, 1) == 0.1);  // does not leave
  }
}

TEST_CASE("Evaluator: what leaves through one line leaves one after another", "[routing]") {
  // Two pipelines of two stages; slots 0 and 1 of the first stage in one house, as are 2 and 3.
  Workload workload;
  workload.stage_of_slot = {0, 0, 1, 1};
  workload.forward_flops = {0, 0};
  workload.microbatches = {{0, {0, 2}}, {0, {1, 3}}};
  LinkMatrix links = Homes({2, 2}, 0, 8);
  Fleet fleet;
  fleet.gflops.assign(4, 1);
  fleet.latency_s.assign(16, 0);
  fleet.wire_s.assign(16, 1);  // a payload of 1 MB
  const auto step_s = [&] { return Evaluator(workload, fleet).StepSeconds({0, 1, 2, 3}); };
  CHECK(step_s() == Approx(4));  // there, back, and both again

  SetLines({{{N(0), N(1)}, {1e6, 1e6}, {5e5, 5e5}}, {{N(2), N(3)}, {1e6, 1e6}, {1e6, 1e6}}},
           &links);
  SetLines(links, {0, 1, 2, 3}, 1e6, &fleet);
  CHECK(step_s() == Approx(5));  // the second is a second behind the first all the way

  // The way in is one, too: ways out that take nothing, and two replies at once, twice.
  fleet.wire_s[fleet.Pair(0, 2)] = fleet.wire_s[fleet.Pair(1, 3)] = 0;
  CHECK(step_s() == Approx(4));
  fleet.wire_s[fleet.Pair(0, 2)] = fleet.wire_s[fleet.Pair(1, 3)] = 1;

  // Within the house the line is not used.
  CHECK(Evaluator(workload, fleet).StepSeconds({0, 2, 1, 3}) == Approx(4));
  // A line that carries both at once is in nobody's way.
  fleet.line_s[static_cast<size_t>(fleet.line_of[0])] = 1e-9;
  CHECK(step_s() == Approx(4));
}
