#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "sim/packet/lateness.h"
#include "sim/packet/packet_router.h"
#include "tests/sim/flow_player.h"

using namespace skerry;
using namespace skerry::testing;

namespace {

// A UDP-like packet of `bytes` in all to node `to`.
Packet Plain(int32_t to, size_t bytes) {
  Packet packet;
  packet.bytes.resize(bytes);
  packet.bytes[0] = 0x45;
  packet.bytes[2] = static_cast<uint8_t>(bytes >> 8);
  packet.bytes[3] = static_cast<uint8_t>(bytes);
  const uint32_t address = PacketAddress(to);
  for (size_t i = 0; i < 4; ++i)
    packet.bytes[16 + i] = static_cast<uint8_t>(address >> (24 - 8 * i));
  return packet;
}

// A TCP super-packet of full segments.
Packet Super(int32_t to, size_t segments) {
  Packet packet = Plain(to, 52 + 1448 * segments);
  packet.bytes[9] = 6;
  packet.bytes[20 + 12] = 8 << 4;
  packet.offload = {OffloadHeader::kNeedsChecksum, OffloadHeader::kTcp4, 52, 1448, 20, 16};
  return packet;
}

std::vector<PacketPiece> Everything(PacketRouter& router) {
  std::vector<PacketPiece> due;
  while (const auto next = router.NextDue()) router.Advance(*next, due);
  return due;
}

double Due(const PacketPiece& piece) {
  return Seconds(piece.passage.last);
}

}  // namespace

TEST_CASE("PacketPlan: a way crosses the lines of its sites, regions and its own cap") {
  NetworkSpec spec = TwoSites(100, Duration::Millis(80), CongestionControl::kBbr, 2);
  spec.sites[0].access_one_way = Duration::Millis(3);
  spec.paths[1].bytes_per_s = 10 * kMbit;
  spec.paths[1].flow_bytes_per_s = 5 * kMbit;
  spec.paths[1].loss = 0.25;
  const PacketPlan plan = MakePacketPlan(spec);

  const PacketRoute& there = plan.Route(0, 1);
  const double port = 1000 * kMbit;
  const std::vector<double> rates = {port,        100 * kMbit, 10 * kMbit, 5 * kMbit * 1500 / 1448,
                                     100 * kMbit, port};
  REQUIRE(there.hops.size() == rates.size());
  for (size_t i = 0; i < rates.size(); ++i)
    CHECK(plan.line_bytes_per_s[static_cast<size_t>(there.hops[i].line)] == Approx(rates[i]));
  CHECK(there.hops[3].delay == Duration::Millis(43));
  CHECK(there.hops[3].lossy);
  CHECK(there.loss == 0.25);
  // Neighbours share both sites' lines and the path, not each other's ports and cap.
  const PacketRoute& beside = plan.Route(2, 3);
  for (const size_t i : {1, 2, 4}) CHECK(beside.hops[i].line == there.hops[i].line);
  for (const size_t i : {0, 3, 5}) CHECK(beside.hops[i].line != there.hops[i].line);
  // The way back has no cap; nodes of one site meet at its switch.
  CHECK(plan.Route(1, 0).hops.size() == 4);
  CHECK(plan.Route(0, 2).hops.size() == 2);
  CHECK(plan.Route(0, 2).hops[0].line == there.hops[0].line);
  CHECK(plan.Route(0, 2).hops[0].delay == spec.sites[0].local_one_way);
}

TEST_CASE("PacketPlan: addresses belong to nodes and to nobody else") {
  CHECK(PacketAddressText(0) == "10.77.0.1");
  CHECK(PacketAddressText(299) == "10.77.1.44");
  for (const int32_t node : {0, 1, 63}) CHECK(PacketNode(PacketAddress(node), 64) == node);
  CHECK(PacketNode(PacketAddress(64), 64) == -1);
  CHECK(PacketNode(kPacketNetwork, 64) == -1);
  CHECK(PacketNode(0x7f000001, 64) == -1);
}

TEST_CASE("PacketRouter: a packet takes its serialisation on each line and the delay") {
  PacketRouter router(MakePacketPlan(TwoSites(10, Duration::Millis(80), CongestionControl::kBbr)),
                      1);
  router.Enter(At(1), 0, Plain(1, 1250));
  const auto due = Everything(router);
  REQUIRE(due.size() == 1);
  CHECK(Due(due[0]) == Approx(1 + 0.001 + 0.040 + 0.001).epsilon(1e-9));
}

TEST_CASE("PacketRouter: a full line delivers at its rate, super-packets as much as plain ones") {
  const bool super = GENERATE(false, true);
  const double mbps = GENERATE(10, 100, 1000);
  NetworkSpec spec = TwoSites(mbps, Duration::Millis(20), CongestionControl::kBbr);
  spec.queue = Duration::Seconds(100);
  PacketRouter router(MakePacketPlan(spec), 1);
  for (int i = 0; i < 100; ++i) {
    if (super) router.Enter(At(0), 0, Super(1, 20));
    for (int j = 0; j < 20 && !super; ++j) router.Enter(At(0), 0, Plain(1, 1500));
  }

  const auto due = Everything(router);

  CHECK(router.counters().delivered == 2000);
  CHECK(router.counters().bytes == 2000 * 1500);
  // The last byte: once through the first line after all others, once more through the last.
  const double rate = mbps * kMbit;
  CHECK(Due(due.back()) == Approx(2001 * 1500 / rate + 0.010).epsilon(1e-6));
  // Nothing is delivered in lumps longer than kPieceTime, unless it is a single segment.
  for (const PacketPiece& piece : due)
    CHECK((piece.count == 1 || piece.count * 1500 / rate <= PacketRouter::kPieceTime.seconds()));
  CHECK(std::is_sorted(due.begin(), due.end(), [](const PacketPiece& a, const PacketPiece& b) {
    return a.passage.last < b.passage.last;
  }));
}

TEST_CASE("PacketRouter: a queue holds queue_ms of its line, the rest is dropped from the tail") {
  NetworkSpec spec = TwoSites(10, Duration::Millis(20), CongestionControl::kBbr);
  spec.queue = Duration::Millis(12);
  PacketRouter router(MakePacketPlan(spec), 1);
  router.Enter(At(0), 0, Super(1, 30));  // 36 ms of line

  const auto due = Everything(router);

  // Segment i finds i · 1.2 ms of queue: eleven find no more than 12 ms.
  CHECK(router.counters().delivered == 11);
  CHECK(router.counters().dropped == 19);
  for (size_t i = 0; i < due.size(); ++i) CHECK(due[i].first == static_cast<int32_t>(i));
}

TEST_CASE("PacketRouter: senders behind one line share it, in the order they came") {
  NetworkSpec spec = TwoSites(10, Duration::Millis(20), CongestionControl::kBbr, 2);
  PacketRouter router(MakePacketPlan(spec), 1);
  router.Enter(At(0), 0, Plain(1, 1500));
  router.Enter(At(0), 2, Plain(3, 1500));
  const auto due = Everything(router);
  REQUIRE(due.size() == 2);
  CHECK(due[0].to == 1);
  CHECK(Due(due[1]) - Due(due[0]) == Approx(0.0012));
}

TEST_CASE("PacketRouter: loss strikes segments, as often as it should, the same ones every time") {
  NetworkSpec spec = TwoSites(1000, Duration::Millis(20), CongestionControl::kBbr);
  spec.queue = Duration::Seconds(100);
  spec.paths[1].loss = 0.01;
  const auto lost = [&](uint64_t seed, size_t segments_each) {
    PacketRouter router(MakePacketPlan(spec), seed);
    for (size_t i = 0; i < 40'000 / segments_each; ++i)
      router.Enter(At(0), 0, Super(1, segments_each));
    const auto due = Everything(router);
    CHECK(router.counters().delivered + router.counters().lost == 40'000);
    return router.counters().lost;
  };
  // 400 expected; the standard deviation is 19.9.
  CHECK(std::abs(lost(1, 40) - 400) < 66);
  CHECK(lost(1, 40) == lost(1, 1));
  CHECK(lost(1, 40) != lost(2, 40));
}

TEST_CASE("PacketRouter: jitter varies the delay and overtakes nothing") {
  NetworkSpec spec = TwoSites(100, Duration::Millis(20), CongestionControl::kBbr);
  spec.paths[1].jitter = Duration::Millis(5);
  PacketRouter router(MakePacketPlan(spec), 3);
  std::vector<PacketPiece> due;
  for (int i = 0; i < 400; ++i) {
    router.Advance(At(i * 0.005), due);
    router.Enter(At(i * 0.005), 0, Plain(1, 100 + static_cast<size_t>(i)));
  }
  for (const PacketPiece& piece : Everything(router)) due.push_back(piece);
  REQUIRE(due.size() == 400);
  std::vector<double> extra;
  for (size_t i = 0; i < due.size(); ++i) {
    CHECK(due[i].shape.total_bytes == static_cast<int32_t>(100 + i));
    extra.push_back(Due(due[i]) - static_cast<double>(i) * 0.005 - 0.010);
  }
  std::sort(extra.begin(), extra.end());
  CHECK(extra[200] > 0.003);
  CHECK(extra[200] < 0.010);
  CHECK(extra.front() < 0.002);
}

TEST_CASE("PacketRouter: what is for nobody here goes nowhere") {
  PacketRouter router(MakePacketPlan(TwoSites(10, Duration::Millis(20), CongestionControl::kBbr)),
                      1);
  router.Enter(At(0), 0, Plain(7, 100));
  router.Enter(At(0), 0, Plain(0, 100));
  router.Enter(At(0), 0, Packet());
  CHECK_FALSE(router.NextDue());
  CHECK(router.counters().not_ours == 3);
}

TEST_CASE("WakeLateness: quantiles are right to an eighth, and a late shaper gets no report") {
  WakeLateness lateness;
  for (int i = 0; i < 990; ++i) lateness.Add(Duration::Micros(50));
  for (int i = 0; i < 10; ++i) lateness.Add(Duration::Millis(30));
  CHECK(lateness.Quantile(0.5) >= Duration::Micros(50));
  CHECK(lateness.Quantile(0.5) <= Duration::Micros(56));
  CHECK(lateness.most() == Duration::Millis(30));
  CHECK(lateness.Verdict().ok());

  lateness.Add(Duration::Millis(30));
  const absl::Status verdict = lateness.Verdict();
  CHECK(absl::IsFailedPrecondition(verdict));
  CHECK(std::string(verdict.message()).find("--shaper inprocess") != std::string::npos);
  CHECK(WakeLateness().Verdict().ok());
}
