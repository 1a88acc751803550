// What the production prober reads of lines whose rate is known: TCP's slow start must not be taken
// for a slow line.
#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "node/link_prober.h"
#include "sim/simulation.h"
#include "tests/sim/flow_player.h"

using namespace skerry;
using skerry::testing::TwoSites;

namespace {

// Probes its peer, or answers.
class Prober final : public Actor {
 public:
  Prober(std::optional<NodeId> target, std::vector<LinkReading>* readings, int64_t bytes,
         std::optional<LinkReading> shown = {})
      : target_(target), readings_(readings), bytes_(bytes), shown_(shown) {}
  void OnStart(Context& context) override {
    if (target_) prober_.OnRequest(context, {*target_, bytes_});
  }
  void OnTimer(Context&, TimerId) override {}
  void OnJobDone(Context&, JobId) override {}
  void OnPeerRestarted(Context&, const NodeId&) override {}
  void OnMessage(Context& context, const NodeId& from, const Message& message) override {
    if (const auto* ping = std::get_if<Ping>(&message)) context.Send(from, Pong{ping->nonce});
    if (const auto* pong = std::get_if<Pong>(&message)) {
      const auto reading = prober_.OnPong(context, from, *pong, shown_);
      if (!reading) return;
      readings_->push_back(*reading);
      // What comes of the run's own traffic later.
      for (const double faster : {0.5, 1.05, 2.0, 2.1}) {
        LinkReading later = *reading;
        later.bytes_per_s *= faster;
        if (const auto news = prober_.News(later)) readings_->push_back(*news);
      }
    }
  }

 private:
  std::optional<NodeId> target_;
  std::vector<LinkReading>* readings_;
  int64_t bytes_;
  std::optional<LinkReading> shown_;
  LinkProber prober_{{}, LinkProber::Pings::kSingle, kHandlingSecondsPerByte};
};

constexpr int64_t kSmall = 256 << 10, kLarge = 2 << 20;

const NodeId kThere = TestNodeId(2);

std::vector<LinkReading> ReadAll(double mbps, int rtt_ms, CongestionControl control, int64_t bytes,
                                 std::optional<LinkReading> shown = {}) {
  const NodeId here = TestNodeId(1), there = kThere;
  SimulationOptions options;
  options.network =
      SimulatedNetwork{TwoSites(mbps, Duration::Millis(rtt_ms), control), {{here, 0}, {there, 1}}};
  Simulation simulation(std::move(options));
  std::vector<LinkReading> readings;
  simulation.AddProcess(
      there, [&](const auto&) { return std::make_unique<Prober>(std::nullopt, &readings, bytes); });
  simulation.AddProcess(
      here, [&](const auto&) { return std::make_unique<Prober>(there, &readings, bytes, shown); },
      Instant() + Duration::Millis(100));
  REQUIRE(
      simulation.RunUntil([&] { return !readings.empty(); }, Instant() + Duration::Seconds(60)));
  return readings;
}

LinkReading Read(double mbps, int rtt_ms, CongestionControl control, int64_t bytes) {
  return ReadAll(mbps, rtt_ms, control, bytes).front();
}

}  // namespace

// Missed, so not listed: at 10 Mbit/s and 228 ms cubic's burst does not fit the queue (2.4 read).
// Training's own messages get no more there.
TEST_CASE("LinkProber: reads rate and round trip of any line, far and fast or near and slow") {
  const auto control = GENERATE(CongestionControl::kCubic, CongestionControl::kBbr);
  const auto [mbps, rtt_ms] = GENERATE(table<double, int>({{1, 10},
                                                           {1, 93},
                                                           {1, 228},
                                                           {10, 10},
                                                           {10, 93},
                                                           {50, 10},
                                                           {50, 93},
                                                           {50, 228},
                                                           {200, 10},
                                                           {200, 93},
                                                           {200, 228}}));
  INFO(mbps << " Mbit/s, " << rtt_ms << " ms");

  const LinkReading reading = Read(mbps, rtt_ms, control, kSmall);

  const double serialisation_s =
      500 / (mbps * testing::kMbit);  // of ping and pong with their frames
  CHECK(reading.rtt_s == Approx(1e-3 * rtt_ms + serialisation_s).epsilon(0.1));
  CHECK(reading.bytes_per_s * 8e-6 > 0.6 * mbps);
  CHECK(reading.bytes_per_s * 8e-6 < 1.1 * mbps);
}

TEST_CASE("LinkProber: of far ways it reads what a long transfer gets, of near ones the line") {
  const auto [mbps, rtt_ms, want_mbps] = GENERATE(table<double, int, double>(
      {{10'000, 1, 9650}, {10'000, 93, 301}, {10'000, 228, 123}, {100, 93, 96.5}}));
  INFO(mbps << " Mbit/s, " << rtt_ms << " ms");

  const LinkReading reading = Read(mbps, rtt_ms, CongestionControl::kBbr, kSmall);

  CHECK(reading.bytes_per_s * 8e-6 == Approx(want_mbps).epsilon(0.1));
}

TEST_CASE("LinkProber: with larger messages it reads what small ones cannot show") {
  const auto [mbps, rtt_ms, share_min, share_max] = GENERATE(table<double, int, double, double>(
      {{20, 50, 0.6, 1.1}, {200, 93, 0.6, 1.6}, {200, 228, 0.4, 1.1}, {1000, 40, 0.4, 1.1}}));
  INFO(mbps << " Mbit/s, " << rtt_ms << " ms");

  const double small =
      Read(mbps, rtt_ms, CongestionControl::kBbr, kSmall).bytes_per_s * 8e-6 / mbps;
  const double large =
      Read(mbps, rtt_ms, CongestionControl::kBbr, kLarge).bytes_per_s * 8e-6 / mbps;

  CHECK(large > share_min);
  CHECK(large < share_max);
  CHECK(large > 0.95 * small);
}

TEST_CASE("LinkProber: what its host has seen of the way is better than a clock up here") {
  const auto read = [](std::optional<LinkReading> shown) {
    return ReadAll(50, 93, CongestionControl::kBbr, LinkProber::kPaddingBytesMax, shown).front();
  };
  const LinkReading by_clock = read({});

  const LinkReading shown = read(LinkReading{kThere, 0.09, 6.2e6});
  CHECK(shown.bytes_per_s == std::max(6.2e6, by_clock.bytes_per_s));
  CHECK(read(LinkReading{kThere, 0.09, 1e5}).bytes_per_s == by_clock.bytes_per_s);
  CHECK(shown.rtt_s == 0.09);
  // Later its traffic met queues.
  CHECK(read(LinkReading{kThere, 0.2, 6.2e6}).rtt_s == by_clock.rtt_s);
}

TEST_CASE("LinkProber: traffic that is faster than what was read is news, once") {
  const auto readings = ReadAll(50, 93, CongestionControl::kBbr, kSmall);

  REQUIRE(readings.size() == 2);
  CHECK(readings[1].bytes_per_s == 2 * readings[0].bytes_per_s);
  CHECK(readings[1].rtt_s == readings[0].rtt_s);
}
