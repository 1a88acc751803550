// Whom a stage-0 node leads its microbatches around, and for how long.
//
// Who was late is avoided for kFirst floors (not for long: whoever stands in does the work of two);
// then one microbatch tries it, while the others go on avoiding it. If that one is over in time the
// node is trusted again, if not it is avoided for twice as long, kMost floors at most. Who is late
// again soon after it was trusted again counts as late once more, not anew.
//
// A value type; not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "common/ids.h"
#include "common/instant.h"

namespace skerry {

class Avoidance {
 public:
  static constexpr int64_t kFirst = 1, kMost = 256;
  using Key = std::pair<int64_t, int32_t>;  // step, microbatch

  explicit Avoidance(Duration floor) : floor_(floor) {}

  // Whether microbatch `key`, about to start, goes around `node`. If not, and the node is one to be
  // tried, it is `key` that tries it.
  bool Avoids(const NodeId& node, Key key, Instant now);

  // A microbatch of step `step`, sent at `sent`, was led around `node` because it was late.
  void OnLate(const NodeId& node, int64_t step, Instant sent, Instant now);
  // The first step of which something was led around somebody who is still avoided: further back
  // than that nobody is. The greatest number if nobody is avoided.
  int64_t OldestStep() const;
  // `key` is over: whom it tried is trusted again.
  void OnOver(Key key, Instant now);
  // `key` tries nobody any more.
  void OnGivenUp(Key key);
  void ForgetIf(const std::function<bool(const NodeId&)>& moved);

 private:
  struct Entry {
    Instant since, until;  // avoided; once trusted again, `until` is when that was
    Duration span;
    int64_t step = 0;
    std::optional<Key> tries;
    bool trusted = false;
  };
  Duration floor_;
  std::map<NodeId, Entry> late_;
};

}  // namespace skerry
