// The order of a simulation: events by (time, process, sequence), whatever order they came in.
//
// Events are plain data: what they mean is looked up when they are due. Near events lie in a wheel
// of slots of about a millisecond, far ones in a heap; only the slot whose turn it is is kept in
// order. So an event costs the same few cache lines whether ten or a hundred thousand are pending.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/instant.h"

namespace skerry {

// `Event` has `int64_t at` in nanoseconds, not negative, and operator>, a strict order that agrees
// with `at` first. A value type.
template <typename Event>
class EventWheel {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  const Event& front() const { return current_.front(); }

  void Push(const Event& event) {
    const int64_t slot = SlotOf(event);
    if (size_++ == 0) slot_ = slot;
    if (slot <= slot_) {
      PushHeap(current_, event);
    } else if (slot - slot_ < kSlots) {
      Put(event, slot);
    } else {
      PushHeap(far_, event);
    }
  }

  // What comes next, in no order: the events of the present slot. Grows when turns() does.
  std::span<const Event> soon() const { return current_; }
  uint64_t turns() const { return turns_; }

  Event Pop() {
    const Event event = PopHeap(current_);
    if (--size_ > 0 && current_.empty()) Turn();
    return event;
  }

 private:
  static constexpr int kSlotBits = 20;  // 2^20 ns
  static constexpr int64_t kSlots = 4096;
  static constexpr size_t kWords = kSlots / 64;

  static int64_t SlotOf(const Event& event) { return event.at >> kSlotBits; }

  static void PushHeap(std::vector<Event>& heap, const Event& event) {
    heap.push_back(event);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
  static Event PopHeap(std::vector<Event>& heap) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const Event event = heap.back();
    heap.pop_back();
    return event;
  }

  void Put(const Event& event, int64_t slot) {
    const auto place = static_cast<size_t>(slot % kSlots);
    wheel_[place].push_back(event);
    occupied_[place / 64] |= uint64_t{1} << (place % 64);
  }

  // The first slot after the present one that holds something; −1 if none does.
  int64_t NextOccupied() const {
    const auto from = static_cast<size_t>((slot_ + 1) % kSlots);
    for (size_t i = 0; i <= kWords; ++i) {
      const size_t word = (from / 64 + i) % kWords;
      uint64_t bits = occupied_[word];
      if (i == 0) bits &= ~uint64_t{0} << (from % 64);
      if (i == kWords) bits &= ~(~uint64_t{0} << (from % 64));
      if (bits == 0) continue;
      const size_t place = word * 64 + static_cast<size_t>(std::countr_zero(bits));
      return slot_ + 1 + static_cast<int64_t>((place + kSlots - from) % kSlots);
    }
    return -1;
  }

  // Goes on to the next slot that holds something, and takes in what is far no more.
  void Turn() {
    ++turns_;
    const int64_t next = NextOccupied();
    slot_ = next >= 0 ? next : SlotOf(far_.front());
    while (!far_.empty() && SlotOf(far_.front()) - slot_ < kSlots) {
      const Event event = PopHeap(far_);
      Put(event, SlotOf(event));
    }
    const auto place = static_cast<size_t>(slot_ % kSlots);
    occupied_[place / 64] &= ~(uint64_t{1} << (place % 64));
    current_.swap(wheel_[place]);
    std::make_heap(current_.begin(), current_.end(), std::greater<>());
  }

  size_t size_ = 0;
  uint64_t turns_ = 0;
  int64_t slot_ = 0;            // of current_; what is due before it is in current_ too
  std::vector<Event> current_;  // a heap; not empty unless all is
  std::vector<Event> far_;      // a heap
  std::vector<std::vector<Event>> wheel_ = std::vector<std::vector<Event>>(kSlots);
  std::array<uint64_t, kWords> occupied_{};
};

struct SimulatedEvent {
  int64_t at = 0;
  int32_t process = 0;  // index; −1 is the world's own script, which comes first
  uint32_t life = 0;    // of the process; an event of an earlier life is void
  uint64_t value = 0;   // by kind
  uint64_t kind : 8 = 0;
  uint64_t sequence : 56 = 0;

  bool operator>(const SimulatedEvent& o) const {
    if (at != o.at) return at > o.at;
    if (process != o.process) return process > o.process;
    return sequence > o.sequence;
  }
};

// Numbers the events, so that those of equal time and process come out as they went in.
class EventQueue {
 public:
  bool empty() const { return wheel_.empty(); }
  Instant next() const { return Instant::FromNanos(wheel_.front().at); }
  void Push(SimulatedEvent event) {
    event.sequence = next_sequence_++ & ((uint64_t{1} << 56) - 1);
    wheel_.Push(event);
  }
  SimulatedEvent Pop() { return wheel_.Pop(); }
  std::span<const SimulatedEvent> soon() const { return wheel_.soon(); }
  uint64_t turns() const { return wheel_.turns(); }

 private:
  EventWheel<SimulatedEvent> wheel_;
  uint64_t next_sequence_ = 1;
};

}  // namespace skerry
