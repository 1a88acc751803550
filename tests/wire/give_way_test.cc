// What a pair's deltas do while another pair of the same sender has activations on their way.
#include <catch2/catch.hpp>
#include <cstdio>

#include "tests/wire/line_world.h"

namespace skerry {
namespace {

struct Shared {
  double activation_s = 0, deltas_bytes_per_s = 0;
};

constexpr size_t kActivation = 250'000;

// Activations one after another, with rests of `rest` between, beside deltas of another pair.
Shared Share(World& world, Duration rest) {
  world.second().rests = true;
  world.RunUntil(Instant() + Duration::Seconds(3));
  for (int i = 0; i < 10; ++i) {  // both windows find their size
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
  Shared alone, equal, yields;
};

Compared Compare(const Line& line, Duration rest) {
  World alone(line, 2), equal(line, 2), yields(line, 2);
  alone.first().rests = true;
  equal.gives_way = false;
  return {Share(alone, rest), Share(equal, rest), Share(yields, rest)};
}

TEST_CASE("GiveWay: an activation crosses a line full of deltas nearly as if they were not there",
          "[wire][window]") {
  struct Case {
    double mbps;
    int rtt_ms, rest_ms;
  };
  const Case c = GENERATE(Case{20, 20, 500}, Case{20, 80, 500}, Case{100, 20, 100});
  INFO(c.mbps << " Mbit/s, " << c.rtt_ms << " ms, every " << c.rest_ms);
  const Line line{c.mbps * 125e3, Duration::Micros(500) * c.rtt_ms, {}};
  const auto [alone, equal, yields] = Compare(line, Duration::Millis(c.rest_ms));
  CHECK(equal.activation_s > 2 * alone.activation_s);  // else there would be nothing to gain
  CHECK(yields.activation_s < 1.35 * alone.activation_s);
  CHECK(yields.deltas_bytes_per_s > 0.7 * equal.deltas_bytes_per_s);
}

TEST_CASE("GiveWay: what activations leave of a line deltas take", "[wire][window]") {
  World world({12.5e6, Duration::Millis(10), {}}, 2);
  world.second().traffic = TrafficClass::kActivation;  // always, over a slow line of their own
  world.second().then = Line{1.25e6, Duration::Millis(10), {}};
  world.RunUntil(Instant() + Duration::Seconds(10));
  CHECK(world.Goodput(Duration::Seconds(5)) > 0.7 * 12.5e6);
}

TEST_CASE("GiveWay: what measures a line does not give way", "[wire][window]") {
  const auto goodput = [](bool gives_way) {
    World world({2.5e6, Duration::Millis(20), {}}, 2);
    world.gives_way = gives_way;
    world.first().traffic = TrafficClass::kData;
    world.second().traffic = TrafficClass::kActivation;
    world.RunUntil(Instant() + Duration::Seconds(5));
    return world.Goodput(Duration::Seconds(5));
  };
  CHECK(goodput(true) == goodput(false));
}

// For docs/benchmarks.md.
TEST_CASE("GiveWay: figures", "[.figures]") {
  for (const double mbps : {10.0, 20.0, 100.0})
    for (const int rtt_ms : {20, 80})
      for (const int rest_ms : {0, 100, 500}) {
        const Line line{mbps * 125e3, Duration::Micros(500) * rtt_ms, {}};
        const auto [alone, equal, yields] = Compare(line, Duration::Millis(rest_ms));
        std::printf(
            "%5.0f Mbit/s, %3d ms, every %3d ms: alone %.3f s, equal %.3f, yields %.3f; "
            "deltas have %.2f and %.2f of the line\n",
            mbps, rtt_ms, rest_ms, alone.activation_s, equal.activation_s, yields.activation_s,
            equal.deltas_bytes_per_s / line.bytes_per_s,
            yields.deltas_bytes_per_s / line.bytes_per_s);
      }
}

// The same with deltas to several peers at once, as in a round.
TEST_CASE("GiveWay: figures of rounds", "[.figures]") {
  for (const double mbps : {20.0, 100.0})
    for (const size_t peers : {1, 4, 11}) {
      const Line line{mbps * 125e3, Duration::Millis(20), {}};
      World alone(line, 1 + peers), equal(line, 1 + peers), yields(line, 1 + peers);
      for (World::Pair& pair : alone.pairs()) pair.rests = true;
      equal.gives_way = false;
      const auto activation_s = [](World& world) {
        return Share(world, Duration::Millis(500)).activation_s;
      };
      std::printf("%5.0f Mbit/s, 40 ms, deltas to %2zu: alone %.3f s, equal %.3f, yields %.3f\n",
                  mbps, peers, activation_s(alone), activation_s(equal), activation_s(yields));
    }
}

}  // namespace
}  // namespace skerry
