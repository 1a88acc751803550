// The window over a line in virtual time.
#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>

#include "tests/wire/line_world.h"

namespace skerry {
namespace {

TEST_CASE("Window: it fills the line and leaves the queue nearly empty", "[wire][window]") {
  const double mbps = GENERATE(10.0, 100.0);
  const int rtt_ms = GENERATE(20, 80, 200);
  INFO(mbps << " Mbit/s, " << rtt_ms << " ms");
  World world({mbps * 125e3, Duration::Micros(500) * rtt_ms, {}});
  world.RunUntil(Instant() + Duration::Seconds(2 + 0.025 * rtt_ms));
  world.queues.clear();
  const double share = world.Goodput(Duration::Seconds(3)) * kHeaders / (mbps * 125e3);
  CHECK(share > 0.93);
  CHECK(Quantile(world.queues, 0.5) < 0.012);
  CHECK(Quantile(world.queues, 0.99) < 0.025);
}

TEST_CASE(
    "Window: a line that drops to 1 % of its rate has a short queue again, and one that comes "
    "back is filled again",
    "[wire][window][fault]") {
  World world({12.5e6, Duration::Millis(20), {}});
  world.RunUntil(Instant() + Duration::Seconds(3));
  world.line().bytes_per_s = 125e3;
  world.RunUntil(world.now() + Duration::Seconds(30));
  world.queues.clear();
  world.RunUntil(world.now() + Duration::Seconds(10));
  CHECK(Quantile(world.queues, 0.5) < 0.3);  // a chunk of the least size takes 0.07 s
  world.line().bytes_per_s = 12.5e6;
  world.RunUntil(world.now() + Duration::Seconds(10));
  CHECK(world.Goodput(Duration::Seconds(2)) > 0.85 * 12.5e6);
}

TEST_CASE("Window: what waits on the way back is not taken for a queue of ours", "[wire][window]") {
  const double mbps = GENERATE(20.0, 100.0);
  const int rtt_ms = GENERATE(2, 20, 80);
  INFO(mbps << " Mbit/s, " << rtt_ms << " ms");
  World world({mbps * 125e3, Duration::Micros(500) * rtt_ms, {}});
  world.RunUntil(Instant() + Duration::Seconds(3));
  world.queue_back = Duration::Millis(6);
  world.RunUntil(world.now() + Duration::Seconds(3));
  world.queues.clear();
  const double share = world.Goodput(Duration::Seconds(3)) * kHeaders / (mbps * 125e3);
  CHECK(share > 0.85);
  CHECK(Quantile(world.queues, 0.99) < 0.025);
}

TEST_CASE("Window: acknowledgements that come bunched do not make bunches of chunks",
          "[wire][window]") {
  World world({25e6 / 8, Duration::Millis(40), {}});
  world.bunch = Duration::Millis(25);
  world.RunUntil(Instant() + Duration::Seconds(5));
  world.queues.clear();
  const double share = world.Goodput(Duration::Seconds(5)) * kHeaders / (25e6 / 8);
  CHECK(share > 0.9);
  CHECK(Quantile(world.queues, 0.9) < 0.015);
}

TEST_CASE("Window: probes that a lost packet holds up are no queue", "[wire][window]") {
  CongestionWindow window;
  const auto at = [](int ms) { return Instant() + Duration::Millis(ms); };
  int64_t received = 0;
  // 12.5 MB/s over 200 ms; every 40 ms a probe that meets so much queue, if any.
  const auto probe = [&](int ms, int took_ms) {
    window.NotePath(at(ms), Duration::Millis(took_ms), {});
    window.OnProbe(at(ms), Duration::Millis(took_ms), {}, window.bytes());
  };
  const auto run = [&](int from, int until, std::optional<int> queue_ms) {
    for (int ms = from; ms < until; ms += 10) {
      if (queue_ms && ms % 40 == 0) probe(ms, 200 + *queue_ms);
      received += 125'000;
      window.OnDelivered(at(ms), received, at(ms), CongestionWindow::Limit::kWindow,
                         window.bytes());
    }
  };
  run(0, 1000, 0);
  run(1000, 1200, 50);
  run(1200, 4000, 3);
  REQUIRE_FALSE(window.is_starting());
  const auto before = static_cast<double>(window.bytes());
  run(4000, 4240, std::nullopt);
  for (int late_ms = 200; late_ms > 0; late_ms -= 40) probe(4240, 200 + late_ms);
  run(4240, 5000, 3);
  CHECK(static_cast<double>(window.bytes()) > 0.98 * before);
  CHECK(window.smoothed() < Duration::Millis(240));
}

TEST_CASE("Window: a start that another's burst ended early is made up for", "[wire][window]") {
  const int until_ms = GENERATE(800, 1400);
  World world({12.5e6, Duration::Millis(100), {}});
  world.RunUntil(Instant() + Duration::Millis(until_ms));
  REQUIRE(world.window().is_starting());
  for (int ms = 0; ms < 300 && world.window().is_starting(); ms += 5) {
    world.line().free = std::max(world.line().free, world.now()) + Duration::Millis(10);
    world.RunUntil(world.now() + Duration::Millis(5));
  }
  REQUIRE_FALSE(world.window().is_starting());
  REQUIRE(world.window().bytes() < 1'000'000);  // of 2.5 MB
  world.RunUntil(world.now() + Duration::Seconds(6));
  world.queues.clear();
  const double share = world.Goodput(Duration::Seconds(3)) * kHeaders / 12.5e6;
  CHECK(share > 0.93);
  CHECK(Quantile(world.queues, 0.99) < 0.025);
}

TEST_CASE("Window: after a rest the line is filled at its own rate", "[wire][window]") {
  World world({12.5e6, Duration::Millis(100), {}});
  world.RunUntil(Instant() + Duration::Seconds(15));
  world.first().rests = true;
  world.RunUntil(world.now() + Duration::Seconds(3));
  world.first().rests = false;
  world.queues.clear();
  const double share = world.Goodput(Duration::Seconds(1)) * kHeaders / 12.5e6;
  CHECK(Quantile(world.queues, 1) < 0.025);
  CHECK(share > 0.75);  // of the second 0.2 s are a round trip
}

TEST_CASE("Window: who tells of more than was sent to it gets no larger one",
          "[wire][window][hostile]") {
  World world({1.25e6, Duration::Millis(40), {}});
  world.first().told_more = 1000;
  int64_t most = 0;
  for (int i = 0; i < 200; ++i) {
    world.RunUntil(world.now() + Duration::Millis(20));
    most = std::max(most, world.window().bytes());
  }
  CHECK(most < 8 * 100'000);  // the line holds 100 KB
}

TEST_CASE("Window: clocks that run apart do no harm", "[wire][window]") {
  World world({12.5e6, Duration::Millis(20), {}});
  world.clock_rate = GENERATE(0.9999, 1.0001);
  world.RunUntil(Instant() + Duration::Seconds(60));
  world.queues.clear();
  CHECK(world.Goodput(Duration::Seconds(3)) * kHeaders > 0.93 * 12.5e6);
  CHECK(Quantile(world.queues, 0.5) < 0.012);
}

TEST_CASE("Window: a chunk is a few milliseconds of the line", "[wire][window]") {
  World world({12.5e6, Duration::Millis(40), {}});
  world.RunUntil(Instant() + Duration::Seconds(4));
  const double seconds = static_cast<double>(world.window().ChunkBytes()) / 12.5e6;
  CHECK(seconds > 0.002);
  CHECK(seconds < 0.006);
}

}  // namespace
}  // namespace skerry
