// What pairs of one sender do on the line that they share.
#include "wire/transport/sender_line.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <numeric>

#include "tests/wire/line_world.h"

namespace skerry {
namespace {

constexpr size_t kActivation = 250'000;

Line MakeLine(double mbps, int rtt_ms) {
  return {mbps * 125e3, Duration::Micros(500) * rtt_ms, {}};
}

struct Shared {
  double activation_s = 0, deltas_bytes_per_s = 0;
};

// Activations one after another, with rests of `rest` between, beside deltas of the other pairs.
Shared Share(World& world, Duration rest) {
  world.second().rests = true;
  world.RunUntil(Instant() + Duration::Seconds(3));
  for (int i = 0; i < 10; ++i) {  // windows find their size
    world.Carry(world.second(), kActivation);
    world.RunUntil(world.now() + rest);
  }
  Shared shared;
  const Instant begin = world.now();
  const int64_t before = world.first().received;
  constexpr int kCount = 20;
  for (int i = 0; i < kCount; ++i) {
    shared.activation_s += world.Carry(world.second(), kActivation) / kCount;
    world.RunUntil(world.now() + rest);
  }
  shared.deltas_bytes_per_s =
      static_cast<double>(world.first().received - before) / (world.now() - begin).seconds();
  return shared;
}

struct Compared {
  Shared alone, each, together;
};

Compared Compare(const Line& line, size_t pairs, Duration rest) {
  World alone(line, pairs), each(line, pairs), together(line, pairs);
  for (World::Pair& pair : alone.pairs()) pair.rests = true;
  each.shares = false;
  return {Share(alone, rest), Share(each, rest), Share(together, rest)};
}

// Of the line, what each pair has.
std::vector<double> Shares(World& world, Duration over) {
  std::vector<double> shares;
  for (const World::Pair& pair : world.pairs())
    shares.push_back(-static_cast<double>(pair.received));
  const Instant begin = world.now();
  world.RunUntil(begin + over);
  for (size_t i = 0; i < shares.size(); ++i) {
    shares[i] += static_cast<double>(world.pairs()[i].received);
    shares[i] /= (world.now() - begin).seconds() * world.line().bytes_per_s;
  }
  return shares;
}

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST_CASE(
    "SenderLine: an activation crosses a line full of deltas nearly as if they were not there",
    "[wire][window]") {
  struct Case {
    double mbps;
    int rtt_ms, rest_ms;
    size_t deltas_to;
    double most = 1.25;  // times of an activation alone
  };
  // Where it takes about as long as it rests, half of the probes are of a line that is not shared.
  const Case c = GENERATE(Case{20, 20, 500, 1}, Case{20, 80, 100, 1, 1.3}, Case{100, 20, 100, 1},
                          Case{100, 80, 500, 1}, Case{20, 40, 500, 11}, Case{100, 40, 500, 11},
                          Case{10, 160, 100, 1}, Case{10, 160, 500, 1}, Case{50, 20, 100, 1});
  INFO(c.mbps << " Mbit/s, " << c.rtt_ms << " ms, every " << c.rest_ms << ", to " << c.deltas_to);
  const auto [alone, each, together] =
      Compare(MakeLine(c.mbps, c.rtt_ms), 1 + c.deltas_to, Duration::Millis(c.rest_ms));
  CHECK(each.activation_s > 1.7 * alone.activation_s);  // else there would be nothing to gain
  CHECK(together.activation_s < c.most * alone.activation_s);
  CHECK(together.deltas_bytes_per_s > 0.7 * each.deltas_bytes_per_s);
}

TEST_CASE("SenderLine: deltas to many keep one short queue and have equal shares",
          "[wire][window]") {
  struct Case {
    double mbps;
    int rtt_ms;
    size_t peers;
  };
  const Case c = GENERATE(Case{5, 20, 11}, Case{20, 40, 11}, Case{20, 80, 4}, Case{100, 20, 11});
  INFO(c.mbps << " Mbit/s, " << c.rtt_ms << " ms, to " << c.peers);
  World world(MakeLine(c.mbps, c.rtt_ms), c.peers);
  world.RunUntil(Instant() + Duration::Seconds(5));
  world.queues.clear();
  const std::vector<double> shares = Shares(world, Duration::Seconds(10));
  CHECK(Sum(shares) > 0.9);
  CHECK(*std::ranges::min_element(shares) > 0.75 * *std::ranges::max_element(shares));
  // At 5 Mbit/s a chunk takes 14 ms.
  CHECK(Quantile(world.queues, 0.5) < std::max(5e-3, 0.12 / c.mbps));
}

TEST_CASE("SenderLine: who comes later has an equal share soon", "[wire][window]") {
  struct Case {
    double mbps;
    int rtt_ms;
    size_t peers;
  };
  const Case c = GENERATE(Case{20, 80, 4}, Case{20, 200, 4}, Case{100, 20, 2}, Case{100, 80, 4});
  INFO(c.mbps << " Mbit/s, " << c.rtt_ms << " ms, to " << c.peers);
  World world(MakeLine(c.mbps, c.rtt_ms), c.peers);
  world.first().rests = true;
  world.RunUntil(Instant() + Duration::Seconds(10));
  world.first().rests = false;
  world.RunUntil(world.now() + Duration::Seconds(8));
  const std::vector<double> shares = Shares(world, Duration::Seconds(5));
  CHECK(Sum(shares) > 0.9);
  CHECK(shares.front() > 0.8 * *std::ranges::max_element(shares));
}

TEST_CASE("SenderLine: what activations leave of a line deltas take", "[wire][window]") {
  World world(MakeLine(100, 20), 2);
  world.second().traffic = TrafficClass::kActivation;  // always, over a slow line of their own
  world.second().then = MakeLine(10, 20);
  world.RunUntil(Instant() + Duration::Seconds(10));
  CHECK(world.Goodput(Duration::Seconds(5)) > 0.7 * 12.5e6);
}

TEST_CASE("SenderLine: pairs with slow lines of their own fill those", "[wire][window]") {
  World world(MakeLine(100, 20), 4);
  for (World::Pair& pair : world.pairs()) pair.then = MakeLine(10, 20);
  world.RunUntil(Instant() + Duration::Seconds(5));
  for (const double share : Shares(world, Duration::Seconds(5))) CHECK(share > 0.9 * 10 / 100);
}

TEST_CASE("SenderLine: deltas have a sixteenth beside activations without end", "[wire][window]") {
  World world(MakeLine(20, 40), 4);
  world.second().traffic = TrafficClass::kActivation;
  world.RunUntil(Instant() + Duration::Seconds(10));
  const std::vector<double> shares = Shares(world, Duration::Seconds(10));
  const double deltas = Sum(shares) - shares[1];
  CHECK(deltas > 0.8 / 16);
  CHECK(deltas < 0.3);
  CHECK(shares[1] > 0.6);
}

TEST_CASE("SenderLine: deltas do not overtake others with activations of their pair",
          "[wire][window]") {
  World world(MakeLine(100, 40), 2);
  world.RunUntil(Instant() + Duration::Seconds(3));
  int64_t first = -world.first().received, second = -world.second().received;
  for (int i = 0; i < 500; ++i) {
    world.Offer(world.first(), TrafficClass::kActivation, 2000);
    world.RunUntil(world.now() + Duration::Millis(10));
  }
  first += world.first().received, second += world.second().received;
  CHECK(static_cast<double>(second) > 0.7 * static_cast<double>(first));
}

TEST_CASE("SenderLine: activations that nobody waited beside are owed for to nobody",
          "[wire][window]") {
  World world(MakeLine(2, 40), 2);
  for (World::Pair& pair : world.pairs()) pair.rests = true;
  world.Offer(world.first(), TrafficClass::kDelta, 200'000);
  world.RunUntil(Instant() + Duration::Seconds(5));
  for (int i = 0; i < 10; ++i) world.Carry(world.second(), 250'000);
  world.RunUntil(world.now() + Duration::Seconds(5));
  const double alone = world.Carry(world.second(), 30'000);
  world.RunUntil(world.now() + Duration::Seconds(1));
  world.Offer(world.first(), TrafficClass::kDelta, 400'000);
  CHECK(world.Carry(world.second(), 30'000) < 1.4 * alone);
}

TEST_CASE("SenderLine: what measures a line is not held back", "[wire][window]") {
  World world(MakeLine(20, 40), 2);
  world.first().traffic = TrafficClass::kData;
  world.second().traffic = TrafficClass::kActivation;
  world.RunUntil(Instant() + Duration::Seconds(5));
  CHECK(world.Goodput(Duration::Seconds(5)) > 0.4 * 2.5e6);
}

TEST_CASE("SenderLine: a line that becomes slow has no long queue, and is filled again",
          "[wire][window]") {
  World world(MakeLine(40, 40), 6);
  world.RunUntil(Instant() + Duration::Seconds(5));
  world.line().bytes_per_s /= 4;
  world.RunUntil(world.now() + Duration::Seconds(5));
  world.queues.clear();
  CHECK(Sum(Shares(world, Duration::Seconds(5))) > 0.9);
  CHECK(Quantile(world.queues, 0.5) < 0.012);
  world.line().bytes_per_s *= 4;
  world.RunUntil(world.now() + Duration::Seconds(5));
  CHECK(Sum(Shares(world, Duration::Seconds(5))) > 0.9);
}

TEST_CASE("SenderLine: a line that becomes slow is noticed beside activations that come and go",
          "[wire][window]") {
  World world(MakeLine(100, GENERATE(40, 80)), 2);
  const Duration rest = Duration::Millis(GENERATE(10, 100, 500));
  world.second().rests = true;
  world.RunUntil(Instant() + Duration::Seconds(3));
  const auto carry_until = [&](double seconds) {
    double longest = 0;
    while (world.now() < Instant() + Duration::Seconds(seconds)) {
      longest = std::max(longest, world.Carry(world.second(), 20'000));
      world.RunUntil(world.now() + rest);
    }
    return longest;
  };
  carry_until(6);
  world.line().bytes_per_s /= 10;
  carry_until(12);
  CHECK(carry_until(16) < 0.25);
}

TEST_CASE("SenderLine: a start beside one that is gone is not held back", "[wire][window]") {
  World world(MakeLine(100, 80), 2);
  for (World::Pair& pair : world.pairs()) {
    pair.rests = true;
    world.Offer(pair, TrafficClass::kDelta, 2000);  // so that its round trip is known
    world.RunUntil(world.now() + Duration::Seconds(1));
  }
  world.second().is_gone = true;
  for (World::Pair& pair : world.pairs()) pair.rests = false;
  world.RunUntil(world.now() + Duration::Seconds(3));
  CHECK(world.Goodput(Duration::Seconds(3)) > 0.85 * 12.5e6);
}

TEST_CASE("SenderLine: peers that are gone hold nobody back", "[wire][window]") {
  World world(MakeLine(20, 40), 6);
  world.RunUntil(Instant() + Duration::Seconds(5));
  for (size_t i = 1; i < 6; ++i) world.pairs()[i].is_gone = true;
  world.RunUntil(world.now() + Duration::Seconds(3));
  CHECK(world.Goodput(Duration::Seconds(3)) > 0.85 * 2.5e6);
}

TEST_CASE("SenderLine: who waits for a turn is not stalled, who waits for its peer is", "[wire]") {
  World world(MakeLine(1, 40), 16);  // a sixteenth of it is for fifteen: a chunk each 17 s
  world.second().traffic = TrafficClass::kActivation;
  world.RunUntil(Instant() + Duration::Seconds(60));
  for (const World::Pair& pair : world.pairs()) CHECK_FALSE(pair.sender.StalledSince(world.now()));
  world.first().is_gone = true;
  world.RunUntil(world.now() + Duration::Seconds(60));
  CHECK(world.first().sender.StalledSince(world.now()));
}

TEST_CASE("SenderLine: near peers are not behind it, and those that are take turns", "[wire]") {
  SenderLine line;
  std::vector<SenderLine::Pair> pairs(3);
  pairs[0].is_near = true;
  for (SenderLine::Pair& pair : pairs) {
    pair.in_line = 200'000;
    pair.window = 1'000'000;
  }
  Instant now;
  std::vector<size_t> sent;
  const auto send = [&](size_t pair, SenderLine::What) -> int64_t {
    if (std::ranges::count(sent, pair) == 2) return 0;
    sent.push_back(pair);
    return 10'000;
  };
  line.Share(now, pairs, send);
  CHECK(sent == std::vector<size_t>{0, 0, 1, 2, 1, 2});
  CHECK_FALSE(line.CommonQueue(1).queue);
  for (int i = 0; i < 10; ++i) {
    now = now + Duration::Millis(10);
    for (const uint64_t pair : {1, 2})
      line.OnProbe(now, pair, {now, Duration::Millis(20), Duration::Millis(60)});
  }
  REQUIRE(line.bound());
  CHECK(*line.bound() < 400'000);
  CHECK(line.CommonQueue(1).queue == Duration::Millis(60));
  sent.clear();
  line.Share(now, pairs, send);
  CHECK(sent == std::vector<size_t>{0, 0});
  pairs.pop_back();  // one alone shares with nobody, after a while
  sent.clear();
  line.Share(now, pairs, send);
  CHECK(sent == std::vector<size_t>{0, 0});
  sent.clear();
  now = now + SenderLine::kAloneAfter;
  line.Share(now, pairs, send);
  CHECK(sent == std::vector<size_t>{0, 0, 1, 1});
  CHECK(line.CommonQueue(1).queue == Duration());
}

// For docs/measurements/transport.md.
TEST_CASE("SenderLine: figures", "[.figures]") {
  for (const double mbps : {10.0, 20.0, 100.0})
    for (const int rtt_ms : {20, 80})
      for (const int rest_ms : {0, 100, 500}) {
        const auto [alone, each, together] =
            Compare(MakeLine(mbps, rtt_ms), 2, Duration::Millis(rest_ms));
        const double line = mbps * 125e3;
        std::printf(
            "%5.0f Mbit/s, %3d ms, every %3d ms: alone %.3f s, each %.3f, together %.3f; "
            "deltas have %.2f and %.2f of the line\n",
            mbps, rtt_ms, rest_ms, alone.activation_s, each.activation_s, together.activation_s,
            each.deltas_bytes_per_s / line, together.deltas_bytes_per_s / line);
      }
}

// With deltas to several peers at once, as in a round.
TEST_CASE("SenderLine: figures of rounds", "[.figures]") {
  for (const double mbps : {20.0, 100.0})
    for (const size_t peers : {1, 4, 11}) {
      const auto [alone, each, together] =
          Compare(MakeLine(mbps, 40), 1 + peers, Duration::Millis(500));
      std::printf("%5.0f Mbit/s, 40 ms, deltas to %2zu: alone %.3f s, each %.3f, together %.3f\n",
                  mbps, peers, alone.activation_s, each.activation_s, together.activation_s);
    }
  for (const double mbps : {5.0, 10.0, 20.0, 100.0, 1000.0})
    for (const int rtt_ms : {20, 80})
      for (const size_t peers : {2, 4, 11})
        for (const bool shares : {false, true}) {
          World world(MakeLine(mbps, rtt_ms), peers);
          world.shares = shares;
          world.RunUntil(Instant() + Duration::Seconds(10));
          world.queues.clear();
          const double share = Sum(Shares(world, Duration::Seconds(10)));
          std::printf(
              "%5.0f Mbit/s, %3d ms, %2zu peers, %s: %.3f of the line, queue %.1f ms, p99 %.1f\n",
              mbps, rtt_ms, peers, shares ? "together" : "each", share,
              1e3 * Quantile(world.queues, 0.5), 1e3 * Quantile(world.queues, 0.99));
        }
}

}  // namespace
}  // namespace skerry
