#include "routing/link_estimator.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "sim/gcp_links.h"

namespace skerry {
namespace {

std::vector<NodeId> Nodes(int32_t n) {
  std::vector<NodeId> nodes;
  for (int32_t i = 0; i < n; ++i) nodes.push_back(TestNodeId(static_cast<uint32_t>(i)));
  return nodes;
}

// The published table, both directions, read once.
LinkEstimator Gcp() {
  const auto nodes = Nodes(kGcpRegions);
  LinkEstimator estimator;
  for (const PublishedLink& link : kGcpLinks) {
    const NodeId& a = nodes[static_cast<size_t>(link.a)];
    const NodeId& b = nodes[static_cast<size_t>(link.b)];
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      REQUIRE(estimator.Add(from, to, 2e-3 * link.one_way_ms, link.mbps * 125e3, Instant()).ok());
    }
  }
  return estimator;
}

int32_t Suspects(const LinkMatrix& links) {
  int32_t count = 0;
  for (int32_t i = 0; i < links.size(); ++i) {
    for (int32_t j = 0; j < links.size(); ++j) count += i != j && links.At(i, j).suspect ? 1 : 0;
  }
  return count;
}

TEST_CASE("LinkEstimator: the median of readings counts, with its age", "[routing]") {
  const auto nodes = Nodes(2);
  LinkEstimator estimator;
  for (const double rtt : {0.1, 0.9, 0.2}) {
    REQUIRE(estimator.Add(nodes[0], nodes[1], rtt, 1e6 / rtt, Instant::FromNanos(5)).ok());
  }
  const LinkMatrix links = estimator.Estimate(nodes, Instant::FromNanos(5) + Duration::Seconds(3));

  const LinkEstimate& link = links.At(0, 1);
  CHECK(link.rtt_s == 0.2);
  CHECK(link.bytes_per_s == Approx(5e6));
  CHECK(link.readings == 3);
  CHECK(link.age_s == Approx(3));
  CHECK(link.rtt_spread > 0);
  CHECK(links.At(1, 0).source == LinkSource::kReverse);
  CHECK(links.At(1, 0).bytes_per_s == Approx(5e6));
}

TEST_CASE("LinkEstimator: what traffic has shown to pass outdates slower readings, not faster ones",
          "[routing]") {
  const auto nodes = Nodes(2);
  LinkEstimator estimator;
  for (const double rate : {2e6, 9e6, 3e6})
    REQUIRE(estimator.Add(nodes[0], nodes[1], 0.1, rate, Instant()).ok());
  REQUIRE(estimator.AddShown(nodes[0], nodes[1], 0.1, 8e6, Instant()).ok());
  const LinkEstimate link = estimator.Read(nodes[0], nodes[1], Instant());
  CHECK(link.readings == 2);
  CHECK(link.bytes_per_s == Approx(8.5e6));
  CHECK_FALSE(estimator.AddShown(nodes[0], nodes[1], 0.1, 0, Instant()).ok());
  CHECK(estimator.Read(nodes[0], nodes[1], Instant()) == link);
  CHECK(estimator.Read(nodes[1], nodes[0], Instant()).readings == 0);
}

TEST_CASE("LinkEstimator: of two directions of a near link the slower one is doubted, three times",
          "[routing]") {
  const double rtt = GENERATE(0.002, 0.02);
  const auto nodes = Nodes(2);
  LinkEstimator estimator;
  REQUIRE(estimator.Add(nodes[0], nodes[1], rtt, 1e7, Instant()).ok());
  CHECK(estimator.Doubtful(nodes, Instant(), true).empty());
  REQUIRE(estimator.Add(nodes[1], nodes[0], rtt, 2e7, Instant()).ok());
  const std::vector<std::pair<NodeId, NodeId>> slower = {{nodes[0], nodes[1]}};
  const bool is_near = rtt < 0.005;
  CHECK((estimator.Doubtful(nodes, Instant(), true) == slower) == is_near);
  CHECK(estimator.Doubtful(nodes, Instant()).empty());
  for (int i = 0; i < 2; ++i) REQUIRE(estimator.Add(nodes[0], nodes[1], rtt, 1e7, Instant()).ok());
  CHECK(estimator.Doubtful(nodes, Instant(), true).empty());
}

TEST_CASE("LinkEstimator: a near pair that is slow both ways is doubted among faster ones",
          "[routing]") {
  const auto nodes = Nodes(3);
  LinkEstimator estimator;
  for (const NodeId& from : nodes) {
    for (const NodeId& to : nodes) {
      const bool is_slow = from != nodes[2] && to != nodes[2];
      if (from != to) REQUIRE(estimator.Add(from, to, 0.002, is_slow ? 6e7 : 1e8, Instant()).ok());
    }
  }
  const std::vector<std::pair<NodeId, NodeId>> slow = {{nodes[0], nodes[1]}, {nodes[1], nodes[0]}};
  CHECK(estimator.Doubtful(nodes, Instant(), true) == slow);
  CHECK(estimator.Doubtful(nodes, Instant()).empty());
}

TEST_CASE("LinkEstimator: impossible readings are refused", "[routing][error]") {
  const auto nodes = Nodes(2);
  LinkEstimator estimator;
  CHECK_FALSE(estimator.Add(nodes[0], nodes[0], 0.1, 1, Instant()).ok());
  CHECK_FALSE(estimator.Add(nodes[0], nodes[1], -0.1, 1, Instant()).ok());
  CHECK_FALSE(estimator.Add(nodes[0], nodes[1], 0.1, 0, Instant()).ok());
  CHECK_FALSE(estimator.Add(nodes[0], nodes[1], NAN, 1, Instant()).ok());
  CHECK_FALSE(estimator.Estimate(nodes, Instant()).At(0, 1).usable());
}

TEST_CASE("LinkEstimator: SkipPipe's slip of units is found, and nothing else", "[routing]") {
  const LinkMatrix links = Gcp().Estimate(Nodes(kGcpRegions), Instant());

  CHECK(Suspects(links) == 2);
  const LinkEstimate& slip = links.At(kGcpNetherlands, kGcpLondon);
  CHECK(slip.suspect);
  CHECK(slip.source == LinkSource::kPredicted);
  CHECK(slip.bytes_per_s / 125e3 > 2083.0 / 3);  // the neighbours have 1600 to 2083 Mbit/s
  CHECK(slip.bytes_per_s / 125e3 < 2083.0 * 3);
  const auto again = Gcp().WorthMeasuring(Nodes(kGcpRegions), Instant());
  CHECK(again.size() == 2);
}

TEST_CASE("LinkEstimator: what is read again and again is believed", "[routing]") {
  const auto nodes = Nodes(kGcpRegions);
  LinkEstimator estimator = Gcp();
  const NodeId& from = nodes[kGcpNetherlands];
  const NodeId& to = nodes[kGcpLondon];
  for (int i = 1; i < LinkEstimator::kBelieveAfter; ++i) {
    CHECK(estimator.Estimate(nodes, Instant()).At(kGcpNetherlands, kGcpLondon).suspect);
    REQUIRE(estimator.Add(from, to, 0.0096, 2.1 * 125e3, Instant()).ok());
  }
  const LinkMatrix links = estimator.Estimate(nodes, Instant());
  CHECK_FALSE(links.At(kGcpNetherlands, kGcpLondon).suspect);
  CHECK(links.At(kGcpNetherlands, kGcpLondon).bytes_per_s == Approx(2.03 * 125e3).epsilon(0.1));
  CHECK(links.At(kGcpLondon, kGcpNetherlands).suspect);
}

TEST_CASE("LinkEstimator: a slow uplink is a fact, not a slip", "[routing]") {
  const auto nodes = Nodes(5);
  LinkEstimator estimator;
  for (const NodeId& from : nodes) {
    for (const NodeId& to : nodes) {
      const double rate = from == nodes[2] ? 0.1e6 : 100e6;
      if (from != to) REQUIRE(estimator.Add(from, to, 0.05, rate, Instant()).ok());
    }
  }
  CHECK(Suspects(estimator.Estimate(nodes, Instant())) == 0);
}

TEST_CASE("LinkEstimator: milliseconds read as seconds are found", "[routing]") {
  const auto nodes = Nodes(kGcpRegions);
  const double factor = GENERATE(1000.0, 0.001);
  LinkEstimator odd;
  for (const PublishedLink& link : kGcpLinks) {
    const bool slips = link.a == 0 && link.b == 1;
    const double rtt = 2e-3 * link.one_way_ms * (slips ? factor : 1.0);
    const NodeId& a = nodes[static_cast<size_t>(link.a)];
    const NodeId& b = nodes[static_cast<size_t>(link.b)];
    REQUIRE(odd.Add(a, b, rtt, link.mbps * 125e3, Instant()).ok());
  }
  const LinkMatrix links = odd.Estimate(nodes, Instant());
  CHECK(links.At(0, 1).suspect);
  CHECK(links.At(0, 1).rtt_s == Approx(0.258).epsilon(0.5));
  CHECK_FALSE(links.At(0, 2).suspect);
}

TEST_CASE("LinkEstimator: a link never read is predicted, an unanswered one stays missing",
          "[routing]") {
  const auto nodes = Nodes(4);
  LinkEstimator estimator;
  for (const auto& [a, b] : {std::pair(0, 1), std::pair(1, 2), std::pair(0, 2)}) {
    REQUIRE(
        estimator
            .Add(nodes[static_cast<size_t>(a)], nodes[static_cast<size_t>(b)], 0.1, 1e6, Instant())
            .ok());
  }
  estimator.AddUnanswered(nodes[1], nodes[0]);
  const LinkMatrix links = estimator.Estimate(nodes, Instant());

  CHECK(links.At(2, 1).source == LinkSource::kReverse);
  CHECK_FALSE(links.At(1, 0).usable());
  CHECK_FALSE(links.At(0, 3).usable());  // nothing at all is known of node 3

  REQUIRE(estimator.Add(nodes[3], nodes[0], 0.1, 1e6, Instant()).ok());
  REQUIRE(estimator.Add(nodes[1], nodes[0], 0.1, 1e6, Instant()).ok());
  const LinkMatrix later = estimator.Estimate(nodes, Instant());
  CHECK(later.At(1, 0).source == LinkSource::kMeasured);
  CHECK(later.At(2, 3).source == LinkSource::kPredicted);
  CHECK(later.At(2, 3).rtt_s == Approx(0.1).epsilon(1.0));
  CHECK(later.At(2, 3).bytes_per_s == Approx(1e6).epsilon(0.01));
}

}  // namespace
}  // namespace skerry
