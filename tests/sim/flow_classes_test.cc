// Signals and bulk between two nodes, and what is more urgent than the bulk under way.
#include <catch2/catch.hpp>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/sim/flow_player.h"

using namespace skerry;
using namespace skerry::testing;

namespace {

using Approx = Catch::Detail::Approx;

constexpr int64_t kMegabyte = 1'000'000;

NetworkSpec SlowLine() {
  return TwoSites(1.6, Duration::Millis(80), CongestionControl::kBbr);
}

}  // namespace

TEST_CASE("FlowNetwork: a signal does not wait until bulk to the same node has left") {
  Player player(SlowLine());
  const int32_t signals = player.network.Open(0, 1, FlowKind::kSignals);
  player.network.Send(Instant(), 0, 1, 20 * kMegabyte, 1);
  for (uint64_t beat = 1; beat <= 20; ++beat) {
    const Instant now = At(static_cast<double>(beat));
    player.RunUntil(now);
    player.network.Send(now, signals, 200, 100 + beat);
  }
  player.RunUntil(At(25));
  CHECK(player.seconds.count(1) == 0);  // of 100 s
  for (uint64_t beat = 1; beat <= 20; ++beat)
    CHECK(player.seconds.at(100 + beat) < static_cast<double>(beat) + 0.4);
}

TEST_CASE("FlowNetwork: what is more urgent breaks off what is under way, and nothing is lost") {
  const auto play = [](bool has_urgent) {
    Player player(TwoSites(20, Duration::Millis(40), CongestionControl::kBbr));
    const int32_t bulk = player.network.Open(0, 1);
    player.network.Send(Instant(), bulk, 10 * kMegabyte, 1, 3);
    player.network.Send(Instant(), bulk, 10 * kMegabyte, 2, 2);
    player.RunUntil(At(2));
    if (has_urgent) {
      player.network.Send(At(2), bulk, kMegabyte, 3, 1);
      player.network.Send(At(2), bulk, kMegabyte, 4, 1);
      CHECK_FALSE(player.network.Withdraw(bulk, 2));  // part of it has left
      CHECK(player.network.Withdraw(bulk, 4));
    }
    player.RunUntil(At(60));
    return std::pair(player.order, player.seconds);
  };
  const auto [order, usual] = play(false);
  const auto [urgent_order, urgent] = play(true);
  CHECK(order == std::vector<uint64_t>{2, 1});
  CHECK(urgent_order == std::vector<uint64_t>{3, 2, 1});
  const double megabyte_s = 8 / (20 * 0.965);
  CHECK(urgent.at(3) == Approx(2.02 + megabyte_s).epsilon(0.02));
  CHECK(urgent.at(2) == Approx(usual.at(2) + megabyte_s).epsilon(0.01));
  CHECK(urgent.at(1) == Approx(usual.at(1) + megabyte_s).epsilon(0.01));
}

TEST_CASE("FlowNetwork: what another stream takes of a line while it lasts is all that it costs") {
  Player player(TwoSites(20, Duration::Millis(40), CongestionControl::kBbr, 2));
  player.network.Send(Instant(), player.network.Open(0, 1), 10 * kMegabyte, 1);
  player.RunUntil(At(2));
  player.network.Send(At(2), player.network.Open(2, 3), 2 * kMegabyte, 2);
  player.RunUntil(At(60));
  const double start_s = 0.14, all_s = 12 * 8 / (20 * 0.965);  // the line was full to the end
  CHECK(player.seconds.at(1) == Approx(start_s + all_s).epsilon(0.01));
}

TEST_CASE("FlowNetwork: deltas give way to an activation that their sender has for another peer") {
  // Node 0 or 2 of the same site sends 10 MB to node 1, node 0 an activation to node 3.
  const auto play = [](int32_t sender, uint8_t rank) {
    Player player(TwoSites(20, Duration::Millis(40), CongestionControl::kBbr, 2));
    player.network.Send(Instant(), player.network.Open(sender, 1), 10 * kMegabyte, 1, rank);
    player.RunUntil(At(2));
    player.network.Send(At(2), player.network.Open(0, 3), 2 * kMegabyte, 2, 1);
    player.RunUntil(At(60));
    return player.seconds;
  };
  const double activation_s = 2 * 8 / (20 * 0.965), all_s = 12 * 8 / (20 * 0.965);
  for (const int rank : {2, 3}) {
    const auto seconds = play(0, static_cast<uint8_t>(rank));
    CHECK(seconds.at(2) - 2 == Approx(activation_s * 17 / 16).epsilon(0.15));
    CHECK(seconds.at(1) == Approx(all_s).epsilon(0.05));  // the line was full to the end
  }
  CHECK(play(0, 4).at(2) - 2 > 1.7 * activation_s);  // what measures a line does not
  CHECK(play(2, 2).at(2) - 2 > 1.7 * activation_s);  // nor does who does not know of it
}

TEST_CASE("FlowNetwork: deltas to many peers take no more beside an activation than one") {
  const auto activation_s = [](int deltas_to) {
    Player player(TwoSites(20, Duration::Millis(40), CongestionControl::kBbr, 8));
    for (int i = 0; i < deltas_to; ++i)
      player.network.Send(Instant(), player.network.Open(0, 2 * i + 3), 5 * kMegabyte, 10 + i, 2);
    player.RunUntil(At(2));
    player.network.Send(At(2), player.network.Open(0, 1), 2 * kMegabyte, 1, 1);
    player.RunUntil(At(60));
    return player.seconds.at(1) - 2;
  };
  const double alone_s = activation_s(0);
  CHECK(activation_s(1) == Approx(alone_s).epsilon(0.15));
  CHECK(activation_s(7) == Approx(alone_s).epsilon(0.15));
}

TEST_CASE("FlowNetwork: a cut keeps the order of classes, and what was broken off has begun") {
  Player player(TwoSites(20, Duration::Millis(40), CongestionControl::kBbr));
  const int32_t bulk = player.network.Open(0, 1);
  player.network.Send(Instant(), bulk, 5 * kMegabyte, 1, 3);
  player.RunUntil(At(1));
  player.network.Send(At(1), bulk, 5 * kMegabyte, 2, 1);
  player.RunUntil(At(1.5));
  player.network.Cut(At(1.5), 0, 1, true);
  player.network.Send(At(1.5), bulk, kMegabyte, 3, 2);
  player.RunUntil(At(5));
  player.network.Cut(At(5), 0, 1, false);
  player.RunUntil(At(60));
  CHECK(player.order == std::vector<uint64_t>{2, 3, 1});

  Player broken(TwoSites(20, Duration::Millis(40), CongestionControl::kBbr));
  const int32_t connection = broken.network.Open(0, 1);
  broken.network.Send(Instant(), connection, 5 * kMegabyte, 1, 3);
  broken.RunUntil(At(1));
  broken.network.Send(At(1), connection, 5 * kMegabyte, 2, 1);
  broken.network.Send(At(1), connection, 5 * kMegabyte, 3, 4);
  broken.RunUntil(At(1.5));
  broken.network.DropNode(At(1.5), 1);
  std::vector<FlowNetwork::Arrival> told;
  broken.network.Advance(At(1.5), told);
  REQUIRE(told.size() == 3);
  for (const auto& arrival : told) {
    CHECK(arrival.lost);
    CHECK(arrival.unsent == (arrival.tag == 3));
  }
}

TEST_CASE("FlowNetwork: a pair shakes hands once, for its signals, and bulk comes beside them") {
  const auto first_bulk = [](bool has_spoken) {
    FlowNetwork network(TwoSites(100, Duration::Millis(100), CongestionControl::kBbr), 1,
                        {.handshake_round_trips = 4});
    if (has_spoken) network.Send(Instant(), network.Open(0, 1, FlowKind::kSignals), 100, 1);
    network.Send(At(has_spoken ? 2 : 0), 0, 1, 1000, 2);
    std::vector<FlowNetwork::Arrival> arrived;
    double at = 0;
    while (const auto due = network.NextDue()) {
      network.Advance(*due, arrived);
      at = Seconds(*due);
    }
    return at;
  };
  CHECK(first_bulk(false) == Approx(0.4 + 0.05).margin(0.005));
  CHECK(first_bulk(true) == Approx(2 + 0.05).margin(0.005));
}
