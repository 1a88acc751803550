#include "node/chunk_scheduler.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <functional>

#include "common/rng.h"

using namespace skerry;

namespace {

NodeId Donor(size_t i) {
  return TestNodeId(static_cast<uint32_t>(i) + 1);
}

// Donors that answer one chunk after another over lines of their own, and a downlink that all
// share; in steps of a millisecond.
class Lines {
 public:
  struct Line {
    double chunks_per_s = 20;
    Duration round_trip = Duration::Millis(80);
    bool hangs = false;
    bool dead = false;
  };
  Lines(int64_t chunks, std::vector<Line> lines, double down_per_s)
      : scheduler(chunks), lines_(std::move(lines)), down_per_s_(down_per_s) {
    queues_.resize(lines_.size());
    Announce();
    Ask();
  }

  void Kill(size_t donor) {
    lines_[donor].dead = true;
    ++deaths;
    // Of what it had begun to send nothing whole will come.
    if (!queues_[donor].empty() && queues_[donor].front().sent > 0) ++begun_and_lost;
    queues_[donor].clear();
    Announce();
    Ask();
  }
  void Hang(size_t donor, bool hangs) { lines_[donor].hangs = hangs; }

  // A millisecond: what the downlink carries is shared by those who have something to send.
  void Step() {
    now_ = now_ + Duration::Millis(1);
    const double share = Share();
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (!IsSending(i)) continue;
      Sent& sent = queues_[i].front();
      const double more = 1e-3 * std::min(lines_[i].chunks_per_s, share);
      carried += std::min(more, 1 - sent.sent);
      sent.sent += more;
      if (sent.sent < 1) continue;
      const int64_t chunk = sent.chunk;
      queues_[i].pop_front();
      if (scheduler.Arrived(now_, Donor(i), chunk)) scheduler.Keep(Donor(i), chunk);
    }
    scheduler.Tend(now_);
    Ask();
  }
  bool Run(double limit_s, const std::function<void(int64_t)>& every = {}) {
    for (int64_t ms = 0; ms < static_cast<int64_t>(1e3 * limit_s); ++ms) {
      if (scheduler.Done()) return true;
      if (every) every(ms);
      Step();
    }
    return scheduler.Done();
  }
  double seconds() const { return (now_ - Instant()).seconds(); }
  size_t alive() const {
    return static_cast<size_t>(
        std::count_if(lines_.begin(), lines_.end(), [](const Line& l) { return !l.dead; }));
  }
  bool is_dead(size_t donor) const { return lines_[donor].dead; }

  ChunkScheduler scheduler;
  int64_t deaths = 0;
  int64_t begun_and_lost = 0;
  double carried = 0;  // chunks, also those that came to nothing
  size_t longest_queue = 0;

 private:
  struct Sent {
    int64_t chunk;
    Instant from;  // when the request is there and the line has had its delay
    double sent = 0;
  };
  bool IsSending(size_t donor) const {
    return !lines_[donor].hangs && !queues_[donor].empty() && queues_[donor].front().from <= now_;
  }
  // Max-min: what the slower ones leave is the others'.
  double Share() const {
    std::vector<double> rates;
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (IsSending(i)) rates.push_back(lines_[i].chunks_per_s);
    }
    std::sort(rates.begin(), rates.end());
    double left = down_per_s_;
    for (size_t i = 0; i < rates.size(); ++i) {
      const double share = left / static_cast<double>(rates.size() - i);
      if (rates[i] >= share) return share;
      left -= rates[i];
    }
    return down_per_s_;
  }
  void Announce() {
    std::vector<NodeId> alive;
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (!lines_[i].dead) alive.push_back(Donor(i));
    }
    scheduler.SetDonors(alive);
  }
  void Ask() {
    for (const ChunkScheduler::Ask& ask : scheduler.Next(now_)) {
      for (size_t i = 0; i < lines_.size(); ++i) {
        if (Donor(i) != ask.donor) continue;
        REQUIRE_FALSE(lines_[i].dead);
        queues_[i].push_back({ask.chunk, now_ + lines_[i].round_trip});
        longest_queue = std::max(longest_queue, queues_[i].size());
      }
    }
  }

  std::vector<Line> lines_;
  double down_per_s_;
  std::vector<std::deque<Sent>> queues_;
  Instant now_;
};

}  // namespace

TEST_CASE("ChunkScheduler: donors of any speed fill the joiner's line", "[node][join]") {
  // Windows follow from round trips: two donors of 300 ms, one of 20.
  Lines lines(
      2000, {{100, Duration::Millis(300)}, {100, Duration::Millis(20)}, {3, Duration::Millis(300)}},
      120);
  REQUIRE(lines.Run(60));
  CHECK(2000 / lines.seconds() > 0.9 * 120);
  CHECK(lines.scheduler.asked_again() == 0);
  // No queue grows at a donor: what is on its way, and a chunk that waits.
  CHECK(lines.longest_queue <= 40);
}

TEST_CASE("ChunkScheduler: a death costs at most the chunk that was being sent, at full line",
          "[node][join]") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    const size_t donors = 6 + rng.Below(14);
    std::vector<Lines::Line> kinds(donors);
    for (Lines::Line& line : kinds) {
      line.chunks_per_s = 10 + static_cast<double>(rng.Below(60));
      line.round_trip = Duration::Millis(10 + static_cast<int64_t>(rng.Below(100)));
    }
    const int64_t chunks = 200 + static_cast<int64_t>(rng.Below(400));
    Lines lines(chunks, kinds, 50);
    const int64_t every_ms = 2000;
    REQUIRE(lines.Run(120, [&](int64_t ms) {
      if (ms % every_ms != every_ms - 1 || lines.alive() <= 2) return;
      size_t victim = rng.Below(donors);
      while (lines.is_dead(victim)) victim = (victim + 1) % donors;
      lines.Kill(victim);
    }));
    INFO("seed " << seed << ", " << lines.deaths << " deaths, " << chunks << " chunks in "
                 << lines.seconds() << " s");
    // What crossed the line and was of no use: less than a chunk a death, besides the duplicates
    // at the end.
    CHECK(lines.begun_and_lost <= lines.deaths);
    const double wasted = lines.carried - static_cast<double>(chunks);
    CHECK(wasted <= static_cast<double>(lines.deaths + lines.scheduler.stolen()));
    CHECK(static_cast<double>(chunks) / lines.seconds() > 0.85 * 50);
  }
}

TEST_CASE("ChunkScheduler: a donor that hangs is left for a while, and welcome again",
          "[node][join]") {
  Lines lines(400, {{30, Duration::Millis(50)}, {30, Duration::Millis(50)}}, 50);
  REQUIRE(lines.Run(60, [&](int64_t ms) {
    if (ms == 1000) lines.Hang(0, true);
    if (ms == 6000) lines.Hang(0, false);
  }));
  // Five seconds at one donor's pace, the rest at the line's.
  CHECK(lines.seconds() < 400 / 50.0 + 5 * 20 / 50.0 + 1.5);
  CHECK(lines.scheduler.given().at(Donor(0)) > 100);
}

TEST_CASE("ChunkScheduler: when nothing comes from anybody nobody is suspected", "[node][join]") {
  Lines lines(400, {{30, Duration::Millis(50)}, {30, Duration::Millis(50)}}, 50);
  REQUIRE(lines.Run(60, [&](int64_t ms) {  // other traffic has the line
    if (ms % 2000 == 1000) lines.Hang(0, true), lines.Hang(1, true);
    if (ms % 2000 == 1900) lines.Hang(0, false), lines.Hang(1, false);
  }));
  CHECK(lines.scheduler.asked_again() == 0);
}

TEST_CASE("ChunkScheduler: a slow donor does not hold up the end", "[node][join]") {
  Lines lines(100, {{50, Duration::Millis(20)}, {0.2, Duration::Millis(20)}}, 1000);
  REQUIRE(lines.Run(30));
  CHECK(lines.seconds() < 4);
  CHECK(lines.scheduler.stolen() <= 3);
}

TEST_CASE("ChunkScheduler: who lied is asked no more, what it gave is asked of others",
          "[node][join]") {
  ChunkScheduler scheduler(3);
  scheduler.SetDonors({Donor(0), Donor(1)});
  const Instant at = Instant() + Duration::Seconds(1);
  const auto asks = scheduler.Next(at);
  REQUIRE(asks.size() == 3);
  const auto first = asks.front();
  REQUIRE(scheduler.Arrived(at, first.donor, first.chunk));
  scheduler.Drop(first.donor);
  for (const auto& ask : scheduler.Next(at)) CHECK(ask.donor != first.donor);
  scheduler.SetDonors({Donor(0), Donor(1)});
  CHECK(scheduler.WindowOf(first.donor) == 0);
  CHECK_FALSE(scheduler.Arrived(at, first.donor, 2));
}

TEST_CASE("ChunkScheduler: without donors it waits, and what is here stays", "[node][join]") {
  Lines lines(100, {{20, Duration::Millis(20)}}, 20);
  CHECK_FALSE(lines.Run(2));
  const int64_t held = lines.scheduler.held();
  CHECK(held > 30);
  lines.Kill(0);
  CHECK_FALSE(lines.Run(5));
  CHECK(lines.scheduler.held() == held);
}
