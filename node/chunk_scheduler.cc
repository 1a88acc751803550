#include "node/chunk_scheduler.h"

#include <algorithm>
#include <cmath>

#include "common/check.h"

namespace skerry {
namespace {

constexpr double kSmoothing = 0.25;
// A chunk is asked of a second donor only if that promises to be so much sooner.
constexpr double kSooner = 3;
constexpr double kGapMinS = 0.25;  // between answers, that are as good as none

}  // namespace

ChunkScheduler::ChunkScheduler(int64_t chunks)
    : chunks_(static_cast<size_t>(chunks), Chunk::kOpen) {}

void ChunkScheduler::SetDonors(const std::vector<NodeId>& donors) {
  for (auto it = donors_.begin(); it != donors_.end();) {
    if (std::find(donors.begin(), donors.end(), it->first) != donors.end()) {
      ++it;
      continue;
    }
    Reopen(it->second, it->second.asked.size());
    it = donors_.erase(it);
  }
  for (const NodeId& donor : donors) {
    if (!dropped_.contains(donor)) donors_.try_emplace(donor);
  }
}

void ChunkScheduler::Drop(const NodeId& donor) {
  dropped_.insert(donor);
  const auto it = donors_.find(donor);
  if (it == donors_.end()) return;
  Reopen(it->second, it->second.asked.size());
  donors_.erase(it);
}

// The first `count` of what it was asked.
void ChunkScheduler::Reopen(Donor& donor, size_t count) {
  for (; count > 0; --count) {
    const int64_t chunk = donor.asked.front().chunk;
    donor.asked.pop_front();
    Chunk& state = chunks_[static_cast<size_t>(chunk)];
    if (state == Chunk::kAskedTwice) {
      state = Chunk::kAsked;
    } else if (state == Chunk::kAsked) {
      state = Chunk::kOpen;
      open_.insert(chunk);
    }
  }
}

int64_t ChunkScheduler::WindowOf(const NodeId& donor) const {
  const auto it = donors_.find(donor);
  return it == donors_.end() ? 0 : WindowOf(it->second);
}

int64_t ChunkScheduler::WindowOf(const Donor& donor) const {
  if (!donor.interval_s || !donor.least_latency || *donor.interval_s <= 0) return kWindowMin;
  const double ahead = std::ceil(donor.least_latency->seconds() / *donor.interval_s);
  return std::clamp(static_cast<int64_t>(std::min(ahead, 1e6)) + 1, kWindowMin, kWindowMax);
}

Duration ChunkScheduler::PatienceWith(const Donor& donor) const {
  if (!donor.latency) return kFirstPatience;
  return std::max(kPatienceMin, Duration::Seconds(kPatienceFactor * donor.latency->seconds()));
}

void ChunkScheduler::AskOf(Instant now, const NodeId& id, Donor& donor, int64_t chunk,
                           std::vector<Ask>* asks) {
  if (donor.asked.empty()) {
    donor.heard = now;
    donor.heard_clock = clock_;
  }
  donor.asked.push_back({chunk, now});
  asks->push_back({id, chunk});
}

double ChunkScheduler::ExpectedS(const Donor& donor) const {
  const auto before = static_cast<double>(donor.asked.size());
  return (donor.least_latency ? donor.least_latency->seconds() : 0) +
         (donor.interval_s ? *donor.interval_s * before : before);
}

std::vector<ChunkScheduler::Ask> ChunkScheduler::Next(Instant now) {
  std::vector<Ask> asks;
  const auto chunks = static_cast<int64_t>(chunks_.size());
  while (!open_.empty() || fresh_ < chunks) {
    const NodeId* best = nullptr;
    for (const auto& [id, donor] : donors_) {
      // Who rested is tried with one chunk.
      const int64_t window = donor.rests > 0 ? 1 : WindowOf(donor);
      if (donor.rests_until || static_cast<int64_t>(donor.asked.size()) >= window) continue;
      if (best == nullptr || ExpectedS(donor) < ExpectedS(donors_.at(*best))) best = &id;
    }
    if (best == nullptr) return asks;
    int64_t chunk = fresh_;
    if (open_.empty()) {
      ++fresh_;
    } else {
      chunk = *open_.begin();
      open_.erase(open_.begin());
      ++asked_again_;
    }
    chunks_[static_cast<size_t>(chunk)] = Chunk::kAsked;
    AskOf(now, *best, donors_.at(*best), chunk, &asks);
  }
  for (auto& [id, donor] : donors_) {
    if (donor.rests_until || donor.rests > 0 || !donor.asked.empty()) continue;
    const auto chunk = ToSteal(now, id);
    if (!chunk) continue;
    chunks_[static_cast<size_t>(*chunk)] = Chunk::kAskedTwice;
    ++stolen_;
    AskOf(now, id, donor, *chunk, &asks);
  }
  return asks;
}

// What is expected last, of a donor much slower than this one.
std::optional<int64_t> ChunkScheduler::ToSteal(Instant now, const NodeId& thief) const {
  const Donor& own = donors_.at(thief);
  if (!own.latency) return std::nullopt;  // nothing is known of it
  const double own_s = own.latency->seconds();
  std::optional<int64_t> best;
  double latest_s = kSooner * own_s;
  for (const auto& [id, donor] : donors_) {
    if (id == thief) continue;
    const double interval_s = donor.interval_s.value_or(1);
    const double silent_s = (now - donor.heard).seconds();
    for (size_t i = 0; i < donor.asked.size(); ++i) {
      const int64_t chunk = donor.asked[i].chunk;
      if (chunks_[static_cast<size_t>(chunk)] != Chunk::kAsked) continue;
      // Whoever has been silent for longer than usual is expected to be for as long again.
      const double left_s =
          std::max(interval_s - silent_s, silent_s) + static_cast<double>(i) * interval_s;
      if (left_s > latest_s) {
        latest_s = left_s;
        best = chunk;
      }
    }
  }
  return best;
}

void ChunkScheduler::Learn(Instant now, const Asked& asked, Donor& donor) {
  const auto smooth = [](double old, double fresh) { return old + kSmoothing * (fresh - old); };
  const Duration latency = now - asked.at;
  donor.least_latency = donor.least_latency ? std::min(*donor.least_latency, latency) : latency;
  donor.latency = donor.latency
                      ? Duration::Seconds(smooth(donor.latency->seconds(), latency.seconds()))
                      : latency;
  // Between two answers only if the second was asked for before the first came.
  if (asked.at < donor.heard) {
    const double interval_s = (now - donor.heard).seconds();
    donor.interval_s = donor.interval_s ? smooth(*donor.interval_s, interval_s) : interval_s;
  }
}

void ChunkScheduler::Hear(Instant now) {
  const double gap_s = heard_ ? (now - *heard_).seconds() : 0;
  const double most_s = std::max(kGapMinS, 2 * gap_s_);
  clock_ += Duration::Seconds(std::min(gap_s, most_s));
  gap_s_ += kSmoothing * (std::min(gap_s, most_s) - gap_s_);
  heard_ = now;
}

bool ChunkScheduler::Arrived(Instant now, const NodeId& id, int64_t chunk) {
  const auto it = donors_.find(id);
  if (it == donors_.end() || chunk < 0 || chunk >= static_cast<int64_t>(chunks_.size())) {
    return false;
  }
  Hear(now);
  Donor& donor = it->second;
  donor.rests_until.reset();
  donor.rests = 0;
  donor.heard_clock = clock_;
  const auto asked = std::find_if(donor.asked.begin(), donor.asked.end(),
                                  [&](const Asked& a) { return a.chunk == chunk; });
  Chunk& state = chunks_[static_cast<size_t>(chunk)];
  if (asked != donor.asked.end()) {
    Learn(now, *asked, donor);
    // It answers in order: what was asked before is not coming.
    const auto skipped = static_cast<size_t>(asked - donor.asked.begin());
    donor.asked.erase(asked);
    Reopen(donor, skipped);
    if (state == Chunk::kAskedTwice) {
      state = Chunk::kAsked;
    } else if (state == Chunk::kAsked) {
      state = Chunk::kOpen;
      open_.insert(chunk);
    }
    donor.heard = now;
    return state != Chunk::kHeld;
  }
  donor.heard = now;
  // Late: it was asked of others meanwhile, or is open.
  return state != Chunk::kHeld && chunk < fresh_;
}

void ChunkScheduler::Keep(const NodeId& donor, int64_t chunk) {
  ++given_[donor];
  Chunk& state = chunks_[static_cast<size_t>(chunk)];
  SKERRY_CHECK(state != Chunk::kHeld);
  state = Chunk::kHeld;
  open_.erase(chunk);
  ++held_;
}

std::vector<NodeId> ChunkScheduler::Tend(Instant now) {
  std::vector<NodeId> silent;
  for (auto& [id, donor] : donors_) {
    if (donor.rests_until && *donor.rests_until <= now) donor.rests_until.reset();
    if (donor.rests_until || donor.asked.empty()) continue;
    const bool is_silent = clock_ - donor.heard_clock >= PatienceWith(donor) ||
                           now - donor.heard >= std::max(kPatienceAlone, PatienceWith(donor));
    if (!is_silent) continue;
    Reopen(donor, donor.asked.size());
    const Duration rest = Duration::Seconds(std::ldexp(1.0, std::min(donor.rests, 10)));
    donor.rests_until = now + std::min(rest, kRestMax);
    ++donor.rests;
    silent.push_back(id);
  }
  return silent;
}

std::optional<Instant> ChunkScheduler::NextDue() const {
  std::optional<Instant> due;
  const auto at = [&](Instant when) { due = due ? std::min(*due, when) : when; };
  for (const auto& [id, donor] : donors_) {
    if (donor.rests_until) {
      at(*donor.rests_until);
    } else if (!donor.asked.empty()) {
      at(donor.heard + PatienceWith(donor));  // or later
    }
  }
  return due;
}

}  // namespace skerry
