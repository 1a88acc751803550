// Which chunk to ask of which donor: a pure state machine, on the caller's clock.
//
// Any donor may give any chunk, and answers in the order it was asked. Each is asked for a window
// of chunks ahead:
//
//   window = ⌈ least latency / interval ⌉ + 1        (Little's law, and one that waits there)
//
// where latency is from asking to arrival and interval what lies between two arrivals of the same
// donor. So a donor's share of the line follows from how fast it gives, without a queue at its end.
// When a donor is gone, what it was asked for is asked of others; when it is silent for much longer
// than its answers take it is asked nothing for a while, each time for twice as long, and is
// welcome when an answer comes after all. Time in which nothing comes from anybody does not count
// (other traffic has the line, or this process stood still) but for kPatienceAlone. At the end,
// when nothing is left to ask, a donor that rests is asked for what a slower one has not begun yet:
// each chunk of two donors at most.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/ids.h"
#include "common/instant.h"

namespace skerry {

class ChunkScheduler {
 public:
  static constexpr int64_t kWindowMin = 2;
  static constexpr int64_t kWindowMax = 32;
  static constexpr Duration kFirstPatience = Duration::Seconds(3);
  static constexpr Duration kPatienceMin = Duration::Millis(500);
  static constexpr Duration kPatienceAlone = Duration::Seconds(10);
  static constexpr double kPatienceFactor = 4;  // times the smoothed latency
  static constexpr Duration kRestMax = Duration::Seconds(30);

  explicit ChunkScheduler(int64_t chunks);

  // Who may give now. Of who is not among them any more, all that was asked is open again. Who was
  // dropped stays out.
  void SetDonors(const std::vector<NodeId>& donors);
  // For good: it lied.
  void Drop(const NodeId& donor);

  struct Ask {
    NodeId donor;
    int64_t chunk = 0;
    bool operator==(const Ask&) const = default;
  };
  // What is to be asked now; it counts as asked.
  std::vector<Ask> Next(Instant now);

  // An answer of `donor`. False: it was not asked for that, or the chunk is here already; then
  // there is nothing to do with it. True: the caller verifies it, then says Keep or Drop.
  bool Arrived(Instant now, const NodeId& donor, int64_t chunk);
  void Keep(const NodeId& donor, int64_t chunk);

  // Time passes: lets silent donors rest. Those that begin to.
  std::vector<NodeId> Tend(Instant now);
  // When a donor that says nothing will be silent too long, or one has rested; nullopt: never.
  std::optional<Instant> NextDue() const;

  bool Done() const { return held_ == static_cast<int64_t>(chunks_.size()); }
  int64_t held() const { return held_; }
  // Chunks asked again since a donor was gone, silent or dropped; asked of two at the end.
  int64_t asked_again() const { return asked_again_; }
  int64_t stolen() const { return stolen_; }
  int64_t WindowOf(const NodeId& donor) const;
  // Who has given chunks, and how many.
  const std::map<NodeId, int64_t>& given() const { return given_; }

 private:
  struct Asked {
    int64_t chunk;
    Instant at;
  };
  struct Donor {
    std::deque<Asked> asked;                         // in order
    std::optional<Duration> least_latency, latency;  // smoothed
    std::optional<double> interval_s;                // smoothed
    Instant heard;                                   // the last answer, or since it was asked
    Duration heard_clock;                            // clock_ then
    std::optional<Instant> rests_until;
    int32_t rests = 0;  // in a row
  };
  enum class Chunk : uint8_t { kOpen, kAsked, kAskedTwice, kHeld };

  int64_t WindowOf(const Donor& donor) const;
  Duration PatienceWith(const Donor& donor) const;
  void Hear(Instant now);
  void Learn(Instant now, const Asked& asked, Donor& donor);
  void Reopen(Donor& donor, size_t count);
  void AskOf(Instant now, const NodeId& id, Donor& donor, int64_t chunk, std::vector<Ask>* asks);
  // When an answer to one more question would be here, as far as is known.
  double ExpectedS(const Donor& donor) const;
  std::optional<int64_t> ToSteal(Instant now, const NodeId& thief) const;

  std::vector<Chunk> chunks_;
  std::set<int64_t> open_;  // asked before, to be asked again
  int64_t fresh_ = 0;       // from here on never asked
  int64_t held_ = 0;
  std::map<NodeId, Donor> donors_;
  std::set<NodeId> dropped_;
  std::map<NodeId, int64_t> given_;
  int64_t asked_again_ = 0;
  int64_t stolen_ = 0;
  // Runs while answers come: of what lies between two at most twice what usually does.
  Duration clock_;
  double gap_s_ = 0;  // smoothed
  std::optional<Instant> heard_;
};

}  // namespace skerry
