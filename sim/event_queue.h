// The order of a simulation: events by (time, process, sequence), whatever order they came in.
//
// Events are plain data: what they mean is looked up when they are due. A binary heap; the sequence
// is given by Push, so events of equal time and process come out as they went in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/instant.h"

namespace skerry {

struct SimulatedEvent {
  int64_t at = 0;       // nanoseconds
  int32_t process = 0;  // index; −1 is the world's own script, which comes first
  uint32_t life = 0;    // of the process; an event of an earlier life is void
  uint64_t sequence = 0;
  uint64_t value = 0;  // by kind
  uint8_t kind = 0;

  bool operator>(const SimulatedEvent& o) const {
    if (at != o.at) return at > o.at;
    if (process != o.process) return process > o.process;
    return sequence > o.sequence;
  }
};

class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }
  Instant next() const { return Instant::FromNanos(heap_.front().at); }

  void Push(SimulatedEvent event) {
    event.sequence = next_sequence_++;
    heap_.push_back(event);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  SimulatedEvent Pop() {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const SimulatedEvent event = heap_.back();
    heap_.pop_back();
    return event;
  }

 private:
  std::vector<SimulatedEvent> heap_;
  uint64_t next_sequence_ = 1;
};

}  // namespace skerry
