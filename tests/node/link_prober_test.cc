// Trains of pings over a line that is known, between machines that are late at times.
#include "node/link_prober.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <vector>

#include "routing/cost_model.h"
#include "tests/coordinator/fake_context.h"

using namespace skerry;
using skerry::testing::FakeContext;

namespace {

constexpr double kMbit = 1e6 / 8;
const NodeId kThere = TestNodeId(2);

// The line, and whoever answers at its end.
struct Line {
  double bytes_per_s = 0;
  Duration round_trip;
  double late_share = 0;              // of the answers,
  Duration late_most = {};            // by up to so much; those behind them wait
  double machine_bytes_per_s = 1e12;  // of who answers, one message after another
  bool holds_first = false;           // its first train is answered all at once
};

struct Probe {
  LinkReading reading;
  int64_t bytes = 0;
  Duration took;
};

Probe Measure(const Line& line, int64_t bytes, uint64_t seed,
              LinkProber::Pings pings = LinkProber::Pings::kTrains,
              std::optional<LinkReading> shown = {}, bool is_transfer = false) {
  FakeContext context;
  LinkProber prober({}, pings, 1 / line.machine_bytes_per_s);
  Rng rng(seed);
  Probe probe;
  std::multimap<Instant, Pong> coming;
  Instant free, answered;
  prober.OnRequest(context, {kThere, bytes, is_transfer});
  for (;;) {
    for (const auto& [to, message] : std::exchange(context.sends, {})) {
      REQUIRE(to == kThere);
      const Ping& ping = std::get<Ping>(message);
      const auto size = static_cast<double>(ping.padding_bytes + 100);
      free = std::max(free, context.now()) + Duration::Seconds(size / line.bytes_per_s);
      Instant late = free + line.round_trip;
      if (rng.Uniform() < line.late_share) {
        late = late + Duration::Seconds(line.late_most.seconds() * rng.Uniform());
      }
      if (line.holds_first && ping.padding_bytes > 0 &&
          probe.bytes < LinkProber::kFirstPaddingBytes) {
        late = context.now() + Duration::Millis(30);
      }
      answered = std::max(answered, late) + Duration::Seconds(size / line.machine_bytes_per_s);
      coming.emplace(answered, Pong{ping.nonce});
      probe.bytes += ping.padding_bytes;
    }
    REQUIRE(!coming.empty());
    const auto [at, pong] = *coming.begin();
    coming.erase(coming.begin());
    context.AdvanceTo(at);
    if (const auto reading = prober.OnPong(context, kThere, pong, shown)) {
      CHECK(coming.empty());
      probe.reading = *reading;
      probe.took = context.now() - Instant();
      return probe;
    }
  }
}

}  // namespace

TEST_CASE("LinkProber: trains read the line, near and far, slow and fast") {
  const auto [mbps, rtt_ms] = GENERATE(table<double, int>(
      {{1, 20}, {10, 228}, {100, 2}, {100, 228}, {150, 148}, {200, 93}, {1000, 2}, {1000, 93}}));
  INFO(mbps << " Mbit/s, " << rtt_ms << " ms");
  const int64_t bytes = 1'800'000;

  const Probe probe = Measure({mbps * kMbit, Duration::Millis(rtt_ms)}, bytes, 1);

  CHECK(probe.reading.target == kThere);
  CHECK(probe.reading.bytes_per_s / (mbps * kMbit) == Approx(1).epsilon(0.02));
  CHECK(probe.reading.rtt_s * 1e3 == Approx(rtt_ms).margin(0.1 + 0.9 / mbps));
  CHECK(probe.bytes <= LinkProber::kPaddedPingsMax * bytes);
  CHECK(probe.took.seconds() <
        0.4 + 12e-3 * rtt_ms + 8e-6 * static_cast<double>(probe.bytes) / mbps);
}

TEST_CASE("LinkProber: a slow line is read before the coordinator gives the probe up") {
  const auto [mbps, rtt_ms] = GENERATE(
      table<double, int>({{0.25, 20}, {0.25, 230}, {0.4, 230}, {0.5, 600}, {0.7, 230}, {1, 600}}));
  const auto pings = GENERATE(LinkProber::Pings::kSingle, LinkProber::Pings::kTrains);
  INFO(mbps << " Mbit/s, " << rtt_ms << " ms");

  const Probe probe = Measure({mbps * kMbit, Duration::Millis(rtt_ms)}, 256 << 10, 1, pings);

  CHECK(probe.took < Duration::Seconds(10));
  CHECK(probe.reading.bytes_per_s / (mbps * kMbit) == Approx(1).epsilon(0.02));
}

TEST_CASE("LinkProber: trains read through machines that are late") {
  const auto [mbps, rtt_ms] = GENERATE(table<double, int>({{100, 228}, {200, 93}, {1000, 2}}));
  INFO(mbps << " Mbit/s, " << rtt_ms << " ms");
  const Line line{mbps * kMbit, Duration::Millis(rtt_ms), 0.2, Duration::Millis(3)};
  int within = 0;
  const int seeds = 50;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const LinkReading reading = Measure(line, 1'800'000, seed).reading;
    const double rate = reading.bytes_per_s / line.bytes_per_s;
    const double round_trip = reading.rtt_s / line.round_trip.seconds();
    within += std::max(std::abs(rate - 1), std::abs(round_trip - 1)) < 0.1;
  }
  CHECK(within >= 48);
}

TEST_CASE("LinkProber: what a machine does with every byte is no part of the line") {
  const Line line{1000 * kMbit, Duration::Millis(2), 0, {}, 1 / kHandlingSecondsPerByte};
  const auto share = [&](LinkProber::Pings pings) {
    return Measure(line, 1'800'000, 1, pings).reading.bytes_per_s / line.bytes_per_s;
  };
  CHECK(share(LinkProber::Pings::kTrains) == Approx(1).epsilon(0.02));
  CHECK(share(LinkProber::Pings::kSingle) == Approx(1).epsilon(0.02));
}

TEST_CASE("LinkProber: a short train that was held up and let go is not a fast line") {
  const auto shown =
      GENERATE(std::optional<LinkReading>(), std::optional(LinkReading{kThere, 2e-3, 300 * kMbit}));
  const Line line{1000 * kMbit, Duration::Millis(2), 0, {}, 1e12, true};
  const LinkReading reading =
      Measure(line, 1'800'000, 1, LinkProber::Pings::kTrains, shown).reading;
  CHECK(reading.bytes_per_s / line.bytes_per_s == Approx(1).epsilon(0.02));
}

TEST_CASE("LinkProber: an answer that nobody asked for, or again, says nothing") {
  FakeContext context;
  LinkProber prober({}, LinkProber::Pings::kTrains);
  CHECK(!prober.OnPong(context, kThere, Pong{7}));
  prober.OnRequest(context, {kThere, 1'000'000});
  while (context.sends.size() < size_t{LinkProber::kTrainPings}) {
    REQUIRE(context.sends.size() == 1);
    const Ping ping = std::get<Ping>(std::exchange(context.sends, {}).front().second);
    context.AdvanceTo(context.now() + Duration::Millis(50));
    CHECK(!prober.OnPong(context, TestNodeId(3), Pong{ping.nonce}));
    CHECK(!prober.OnPong(context, kThere, Pong{ping.nonce + 1}));
    CHECK(context.sends.empty());
    CHECK(!prober.OnPong(context, kThere, Pong{ping.nonce}));
  }
  // The first of a train again and again is one answer.
  const Ping first = std::get<Ping>(context.sends.front().second);
  context.sends.clear();
  for (int i = 0; i < 2 * LinkProber::kTrainPings; ++i) {
    CHECK(!prober.OnPong(context, kThere, Pong{first.nonce}));
  }
  CHECK(context.sends.empty());
}

TEST_CASE("LinkProber: a transfer is one train of what was asked for, at the rate it passes") {
  const Line line{100 * kMbit, Duration::Millis(90), 0.2, Duration::Millis(3)};
  const int64_t bytes = 3'750'000;
  const Probe probe = Measure(line, bytes, 1, LinkProber::Pings::kTrains, {}, true);
  CHECK(probe.reading.is_transfer);
  CHECK(probe.reading.target == kThere);
  CHECK(probe.reading.bytes_per_s / line.bytes_per_s == Approx(1).epsilon(0.02));
  CHECK(probe.bytes <= bytes);
  CHECK(probe.bytes > bytes - LinkProber::kTrainPings);
  CHECK(probe.took.seconds() < 0.45);
}

TEST_CASE("LinkProber: of a single ping all of its time is the transfer's, the round trip known") {
  FakeContext context;
  LinkProber prober({}, LinkProber::Pings::kSingle, kHandlingSecondsPerByte);
  std::optional<LinkReading> reading;
  for (const bool is_transfer : {false, true}) {
    reading.reset();
    prober.OnRequest(context, {kThere, 1 << 20, is_transfer});
    while (!reading) {
      REQUIRE(context.sends.size() == 1);
      const Ping ping = std::get<Ping>(std::exchange(context.sends, {}).front().second);
      const double byte_s = 1 / 1e6 + kHandlingSecondsPerByte;
      context.AdvanceTo(context.now() + Duration::Millis(90) +
                        Duration::Seconds(byte_s * static_cast<double>(ping.padding_bytes)));
      reading = prober.OnPong(context, kThere, Pong{ping.nonce});
    }
    CHECK(reading->is_transfer == is_transfer);
    CHECK(reading->bytes_per_s == Approx(1e6).epsilon(0.001));
  }
}

TEST_CASE("LinkProber: of a transfer no more than so much is sent, whatever was asked for") {
  const Probe probe = Measure({1e12, Duration::Millis(1)}, int64_t{1} << 60, 1,
                              LinkProber::Pings::kTrains, {}, true);
  CHECK(probe.bytes <= LinkProber::kTransferBytesMax);
}

TEST_CASE("LinkProber: transfers to several are under way at once, beside a probe") {
  const auto pings = GENERATE(LinkProber::Pings::kSingle, LinkProber::Pings::kTrains);
  const NodeId other = TestNodeId(3), third = TestNodeId(4);
  FakeContext context;
  LinkProber prober({}, pings);
  prober.OnRequest(context, {third, 1 << 20});
  prober.OnRequest(context, {kThere, 1 << 20, true});
  prober.OnRequest(context, {other, 1 << 20, true});
  // One line of 1 MB/s: the answers come in the order of the pings, the probe's last.
  auto sent = std::exchange(context.sends, {});
  std::ranges::rotate(sent, sent.begin() + 1);
  std::map<NodeId, LinkReading> readings;
  int64_t bytes = 0;
  for (const auto& [to, message] : sent) {
    const Ping& ping = std::get<Ping>(message);
    bytes += ping.padding_bytes;
    context.AdvanceTo(Instant() + Duration::Seconds(1e-6 * static_cast<double>(bytes)));
    CHECK_FALSE(prober.OnPong(context, TestNodeId(9), Pong{ping.nonce}));
    if (const auto reading = prober.OnPong(context, to, Pong{ping.nonce})) {
      CHECK(reading->is_transfer);
      CHECK(readings.emplace(to, *reading).second);
    }
    CHECK_FALSE(prober.OnPong(context, to, Pong{ping.nonce}));  // again
  }
  CHECK(bytes == 2 << 20);
  REQUIRE(readings.size() == 2);
  CHECK(readings.at(kThere).bytes_per_s == Approx(1e6).epsilon(0.01));
  const bool is_train = pings == LinkProber::Pings::kTrains;
  CHECK(readings.at(other).bytes_per_s == Approx(is_train ? 1e6 : 0.5e6).epsilon(0.01));
  CHECK(context.sends.size() == 1);  // the probe goes on
}
