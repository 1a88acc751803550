// What the pairs of one process may have under way together, and which of them goes next.
//
// Every pair's window (window.h) looks for the end of its own path, and keeps a little queue there.
// But a home's line is the first hop of all paths, and eleven windows keep eleven queues there. So
// what probes meet is told apart: what those of other pairs meet on average is the common queue,
// and only what a pair meets beyond that is followed by its window. The common queue is followed
// here, as by a window (queue_follower.h; probes are those of all pairs), by one bound on the bytes
// of all pairs. It is content with less than windows are, so that where pairs share a
// line it is the bound that holds them back. It begins with what fills the longest of the paths
// alone, and doubles every other round until there is a queue. (That flows to different ends
// share what they know of a line is the idea of the Congestion Manager, RFC 3124.)
//
// Under that bound activations go first, whichever pair they are for. What they leave is for the
// rest, and at least a sixteenth: outer rounds end also where activations could fill the line. What
// measures a line (kData) is as urgent as they are where they wait, or it would find the line slow,
// and else is of the rest. Pairs that are equally urgent take turns, a chunk each.
//
// One pair alone has nothing to share; but it is alone only when it has been for kAloneAfter.
// Activations come and go: were the line another one each time, no probe would come back in time to
// count. Near peers (kNear) are behind another line, and who acknowledges nothing any more has
// none.
//
// Pure; not thread-safe. Times do not go back.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/instant.h"
#include "wire/transport/queue_follower.h"

namespace skerry {

class SenderLine {
 public:
  static constexpr Duration kTargetQueue = Duration::Millis(2);
  static constexpr int64_t kLeastBytes = 24 << 10;  // of all: not quite three of the least chunks
  static constexpr Duration kNear = Duration::Millis(2);  // round trip
  static constexpr Duration kAloneAfter = Duration::Seconds(1);
  static constexpr int64_t kRestShare = 16;

  // Of one that has something to send, or under way.
  struct Pair {
    int64_t in_line = 0, window = 0;  // bytes
    int64_t chunk = 0;                // bytes that it would send at a time
    bool is_near = false;
    bool is_lost = false;    // nothing of it has been acknowledged for long
    bool is_urgent = false;  // activations wait to leave
    bool measures = false;   // there is nothing but kData
  };
  // Puts one chunk of that pair on the wire and says how long it is; 0: it has none, or may not.
  enum class What : uint8_t { kAnything, kActivations };
  using SendOne = absl::FunctionRef<int64_t(size_t pair, What)>;
  // Lets them send until none may, or the line has no room.
  void Share(Instant now, std::span<const Pair> pairs, SendOne send);

  // What a probe met. `round_trip`: the shortest of its pair.
  struct Reading {
    Instant sent;
    Duration round_trip, queue;
  };
  // `pair`: any number that no other pair of the process has.
  void OnProbe(Instant now, uint64_t pair, const Reading& reading);

  // What the probes of other pairs meet as well.
  struct Common {
    Instant since;                  // goes for probes that have left since then
    std::optional<Duration> queue;  // nullopt: there are other pairs, but they have not told yet
    // The most that one chunk may have, or who has the larger ones would have more of the line, and
    // larger ones for it. nullopt: there are no other pairs.
    std::optional<int64_t> chunk;
  };
  Common CommonQueue(uint64_t pair) const;
  std::optional<int64_t> bound() const { return bound_; }  // nullopt: there never were several

 private:
  // Indices of pairs, which are asked one after another; `again`: those that had something.
  struct Turns {
    std::vector<size_t> who, again;
    size_t at = 0;
    size_t next = 0;  // the next time it begins with this pair, or the first behind it
    bool IsOver() const { return at == who.size() && again.empty(); }
  };
  struct Met {
    Duration queues;  // their sum
    int probes = 0;
  };
  struct Round {
    Met all;
    absl::flat_hash_map<uint64_t, Met> of;  // by pair
    Duration OfOthers(uint64_t pair) const;
  };

  void BeginTurns(Instant now, std::span<const Pair> pairs);
  int64_t SendNext(Turns& turns, absl::FunctionRef<int64_t(size_t)> send);
  bool SendUrgent(std::span<const Pair> pairs, SendOne send);
  bool SendRest(SendOne send);
  bool HasRoom(int64_t beyond);
  bool HasAll() const;
  void EndRound();
  void Follow(Duration queue, Duration round_trip, int64_t used);

  std::optional<int64_t> bound_;
  bool shares_ = false;   // several pairs have something to send, or had,
  Instant since_;         // or not, since then
  size_t far_ = 0;        // how many have now
  Instant several_at_;    // the last time that it was several
  bool starting_ = true;  // no common queue has been met
  QueueFollower follower_;

  Turns near_, urgent_, rest_;
  int64_t in_line_ = 0;  // bytes of all but the near
  int64_t chunk_ = 0;    // bytes, the mean of those
  int64_t owed_ = 0;     // bytes, to the rest

  // The round under way, and what was told in the one before.
  std::optional<Instant> began_;
  Quickest queues_;
  Duration round_trips_;  // their sum
  int64_t most_in_line_ = 0, most_before_ = 0;
  bool holds_back_ = false;
  Round now_, before_;
  bool has_told_ = true;
};

}  // namespace skerry
