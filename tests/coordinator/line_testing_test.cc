// Transfers over lines that are known, and what is found of them.
#include "coordinator/line_testing.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

using namespace skerry;

namespace {

NodeId N(uint32_t i) {
  return TestNodeId(i + 1);
}

LineTest PairTo(uint32_t first, double rate) {
  return {{N(first), N(first + 1)}, {N(90), N(91)}, {rate, rate}};
}

// Rates of the transfers that are asked for at once.
using Lines = std::function<std::vector<double>(const std::vector<LineTesting::Transfer>&)>;

struct Told {
  std::vector<LineFinding> findings;
  std::vector<size_t> asked;  // how many at once, each time
};

Told RunAll(LineTesting& testing, const Lines& lines) {
  Told told;
  Instant now;
  while (!testing.IsOver()) {
    now = now + Duration::Seconds(1);
    const auto transfers = testing.Next(now);
    if (transfers.empty()) continue;
    told.asked.push_back(transfers.size());
    const std::vector<double> rates = lines(transfers);
    for (size_t i = 0; i < transfers.size(); ++i) {
      CHECK(testing.Answered(transfers[i].from, transfers[i].target, rates[i]));
      if (auto finding = testing.TakeFinding()) told.findings.push_back(*finding);
    }
    REQUIRE(told.asked.size() < 100);
  }
  return told;
}

}  // namespace

TEST_CASE("LineTesting: lines of their own are seen at once", "[coordinator]") {
  LineTesting testing;
  testing.Set({PairTo(0, 1e6), PairTo(2, 2e6)}, Instant());
  const Told told = RunAll(testing, [](const auto& transfers) {
    CHECK(transfers[0].bytes == LineBytes(transfers[0].from < N(2) ? 1e6 : 2e6));
    return std::vector<double>(transfers.size(), 2e6);
  });
  CHECK(told.asked == std::vector<size_t>{2, 2});
  REQUIRE(told.findings.size() == 2);
  CHECK(told.findings[0] == LineFinding{{N(0), N(1)}, {1e6, 1e6}, {2e6, 2e6}});
  for (const LineFinding& finding : told.findings) CHECK(finding.Sharing().empty());
}

TEST_CASE("LineTesting: a line that is shared halves what each carries", "[coordinator]") {
  LineTesting testing;
  testing.Set({PairTo(0, 1e6)}, Instant());
  const Told told = RunAll(testing, [](const auto& transfers) {
    return std::vector<double>(transfers.size(), 0.9e6 / static_cast<double>(transfers.size()));
  });
  CHECK(told.asked == std::vector<size_t>{2, 1, 1, 2});
  REQUIRE(told.findings.size() == 1);
  CHECK(told.findings[0].Sharing().size() == 2);
  CHECK(told.findings[0].bytes_per_s() == Approx(0.9e6));
}

TEST_CASE("LineTesting: what is slow at first, or for everybody, is not shared", "[coordinator]") {
  LineTesting testing;
  testing.Set({PairTo(0, 1e6)}, Instant());
  SECTION("windows that open") {
    int times = 0;
    const Told told = RunAll(testing, [&](const auto& transfers) {
      return std::vector<double>(transfers.size(), ++times == 1 ? 0.3e6 : 1e6);
    });
    REQUIRE(told.findings.size() == 1);
    CHECK(told.findings[0].Sharing().empty());
  }
  SECTION("a train that read more than a transfer gets") {
    const Told told = RunAll(testing, [](const auto& transfers) {
      return std::vector<double>(transfers.size(), 0.4e6);
    });
    REQUIRE(told.findings.size() == 1);
    CHECK(told.findings[0].Sharing().empty());
  }
}

TEST_CASE("LineTesting: who does not answer ends its test, and only that", "[coordinator]") {
  LineTesting testing;
  testing.Set({PairTo(0, 1e6), PairTo(2, 1e6)}, Instant());
  Instant now;
  const auto first = testing.Next(now);
  REQUIRE(first.size() == 2);
  CHECK(testing.Answered(first[0].from, first[0].target, 1e6));
  CHECK_FALSE(testing.Answered(first[0].from, first[0].target, 1e6));  // again
  CHECK_FALSE(testing.Answered(N(7), first[1].target, 1e6));           // not asked
  CHECK_FALSE(testing.Answered(first[1].from, N(90), 1e6));            // of another way
  CHECK(testing.Next(now + LineTesting::kPatience).empty());

  now = now + LineTesting::kPatience + Duration::Millis(1);
  const auto second = testing.Next(now);
  REQUIRE(second.size() == 2);
  CHECK(second[0].from == N(2));
  CHECK_FALSE(testing.Answered(first[1].from, first[1].target, 1e6));  // too late
  CHECK_FALSE(testing.TakeFinding());
  for (const auto& transfer : second) CHECK(testing.Answered(transfer.from, transfer.target, 1e6));
  CHECK(testing.TakeFinding());
  CHECK(testing.IsOver());
}

TEST_CASE("LineTesting: who is found to share a line is no longer two others' targets",
          "[coordinator]") {
  // A house of three that is reached faster than the others, of two each.
  const std::vector<size_t> house = {0, 0, 0, 1, 1, 2, 2};
  std::vector<NodeId> nodes;
  for (uint32_t i = 0; i < house.size(); ++i) nodes.push_back(N(i));
  LinkMatrix links(nodes);
  for (size_t a = 0; a < house.size(); ++a) {
    for (size_t b = 0; b < house.size(); ++b) {
      const bool is_near = house[a] == house[b];
      if (a != b) links.Set(nodes[a], nodes[b], is_near ? 2e-3 : 40e-3, house[b] == 0 ? 8e6 : 5e6);
    }
  }
  const bool shares = GENERATE(false, true);
  LineTesting testing;
  CHECK_FALSE(testing.HasBegun(nodes));
  testing.Begin(links, {}, Instant());
  CHECK(testing.HasBegun(nodes));
  CHECK_FALSE(testing.HasBegun({nodes[0]}));
  std::vector<size_t> of_house_0;  // targets, of each test of another house
  RunAll(testing, [&](const auto& transfers) {
    const bool is_first = transfers[0].from < N(3);
    if (!is_first && transfers.size() == 2) {
      of_house_0.push_back(static_cast<size_t>(std::ranges::count_if(
          transfers, [](const auto& transfer) { return transfer.target < N(3); })));
    }
    const double rate = is_first && shares ? 5e6 / static_cast<double>(transfers.size()) : 9e6;
    return std::vector<double>(transfers.size(), rate);
  });
  CHECK(of_house_0 == (shares ? std::vector<size_t>{1, 1} : std::vector<size_t>{2, 2}));
}

TEST_CASE("LineTesting: what one carries to several at once, and nobody asks alone",
          "[coordinator]") {
  const LineTest test{{N(3)}, {N(90), N(91), N(92)}, {2e6, 1e6, 1e6}};
  LineTesting testing;
  testing.Set({test}, Instant());
  int times = 0;
  const Told told = RunAll(testing, [&](const auto& transfers) {
    for (const auto& transfer : transfers) CHECK(transfer.from == N(3));
    const double rate = ++times == 1 ? 0.2e6 : 0.8e6;  // closed windows at first
    return std::vector<double>(transfers.size(), rate);
  });
  CHECK(told.asked == std::vector<size_t>{3, 3});
  REQUIRE(told.findings.size() == 1);
  CHECK(told.findings[0] == LineFinding{{N(3)}, {2e6}, {3 * 0.8e6}});
  testing.Set({test}, Instant());
  CHECK(testing.IsOver());
}

TEST_CASE("LineTesting: a program that has one transfer at a time costs one wait",
          "[coordinator]") {
  const auto from = [](uint32_t node) { return LineTest{{N(node)}, {N(90), N(91)}, {1e6, 1e6}}; };
  LineTesting testing;
  testing.Set({PairTo(0, 1e6), from(0), from(5), from(6)}, Instant());
  Instant now;
  for (const auto& transfer : testing.Next(now))
    CHECK(testing.Answered(transfer.from, transfer.target, 1e6));
  const auto asked = testing.Next(now);
  REQUIRE(asked.size() == 2);
  CHECK_FALSE(testing.Answered(N(1), asked[1].target, 1e6));  // asked of another
  CHECK(testing.Answered(N(0), asked[1].target, 1e6));        // the second took the first's place
  now = now + LineTesting::kPatience + Duration::Millis(1);
  CHECK(testing.Next(now).empty());
  CHECK(testing.IsOver());
  testing.Set({from(5)}, now);
  CHECK(testing.IsOver());
}

TEST_CASE("LineTesting: a house is tested once, and again when it has grown", "[coordinator]") {
  LineTesting testing;
  testing.NoteFound({{N(0), N(1)}, {1, 1}, {1, 1}});
  testing.Set({PairTo(0, 1e6)}, Instant());
  CHECK(testing.IsOver());
  const LineTest grown{{N(0), N(1), N(2)}, {N(90), N(91), N(92)}, {1e6, 1e6, 1e6}};
  testing.Set({grown}, Instant());
  CHECK(testing.Next(Instant()).size() == 3);
}

TEST_CASE("LineTesting: more houses than there is time for are left untested", "[coordinator]") {
  LineTesting testing;
  std::vector<LineTest> tests;
  for (uint32_t house = 0; house < 40; ++house) tests.push_back(PairTo(2 * house, 1e6));
  testing.Set(tests, Instant());
  const Told told = RunAll(
      testing, [](const auto& transfers) { return std::vector<double>(transfers.size(), 1e6); });
  CHECK(told.findings.size() == 30);  // a second each
}
