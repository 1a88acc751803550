// The order of a simulation: events by (time, process, sequence), whatever order they came in.
//
// Events are plain data: what they mean is looked up when they are due. Near events lie in a wheel
// of slots of about a millisecond, far ones in a heap. A slot is put in order when its turn comes;
// what comes later for the present slot goes into a heap beside it. The slots share one pool of
// chunks, of which the one freed last is taken first: so the caches hold what is pending, and not
// every slot there is.
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
  EventWheel() { heads_.fill(kNone); }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  const Event& front() const { return IsLateFirst() ? late_.front() : FirstInOrder(); }

  void Push(const Event& event) {
    const int64_t slot = SlotOf(event);
    if (size_++ == 0) slot_ = slot;
    if (slot <= slot_) {
      PushHeap(late_, event);
    } else if (slot - slot_ < kSlots) {
      Put(event, slot);
    } else {
      PushHeap(far_, event);
    }
  }

  // What the present slot held when its turn came, in no order: new whenever turns() grows.
  std::span<const Event> soon() const { return current_; }
  uint64_t turns() const { return turns_; }

  Event Pop() {
    const Event event = IsLateFirst() ? PopHeap(late_) : TakeInOrder();
    if (--size_ > 0 && next_ == order_.size() && late_.empty()) Turn();
    return event;
  }

 private:
  static constexpr int kSlotBits = 20;  // 2^20 ns
  static constexpr int64_t kSlots = 4096;
  static constexpr size_t kWords = kSlots / 64;
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr uint32_t kChunkEvents = 8;

  struct Chunk {
    uint32_t next = kNone;  // of the same slot, or free
    uint32_t count = 0;
    std::array<Event, kChunkEvents> events;
  };

  static int64_t SlotOf(const Event& event) { return event.at >> kSlotBits; }

  const Event& FirstInOrder() const { return current_[static_cast<uint32_t>(order_[next_])]; }
  const Event& TakeInOrder() { return current_[static_cast<uint32_t>(order_[next_++])]; }
  bool IsLateFirst() const {
    if (late_.empty()) return false;
    return next_ == order_.size() || FirstInOrder() > late_.front();
  }

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
    uint32_t& head = heads_[place];
    if (head == kNone || chunks_[head].count == kChunkEvents) {
      const uint32_t fresh = NewChunk();
      chunks_[fresh].next = head;
      head = fresh;
      occupied_[place / 64] |= uint64_t{1} << (place % 64);
    }
    Chunk& chunk = chunks_[head];
    chunk.events[chunk.count++] = event;
  }

  uint32_t NewChunk() {
    if (free_ == kNone) {
      chunks_.emplace_back();
      return static_cast<uint32_t>(chunks_.size() - 1);
    }
    const uint32_t chunk = free_;
    free_ = chunks_[chunk].next;
    chunks_[chunk].count = 0;
    return chunk;
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
    TakeOver(static_cast<size_t>(slot_ % kSlots));
    constexpr int64_t kWithinSlot = (int64_t{1} << kSlotBits) - 1;
    order_.resize(current_.size());
    for (size_t i = 0; i < order_.size(); ++i)
      order_[i] = static_cast<uint64_t>(current_[i].at & kWithinSlot) << 32 | i;
    next_ = 0;
    std::sort(order_.begin(), order_.end(), [this](uint64_t a, uint64_t b) {
      if (a >> 32 != b >> 32) return a < b;
      return current_[static_cast<uint32_t>(b)] > current_[static_cast<uint32_t>(a)];
    });
  }

  void TakeOver(size_t place) {
    current_.clear();
    uint32_t chunk = heads_[place];
    while (chunk != kNone) {
      Chunk& taken = chunks_[chunk];
      current_.insert(current_.end(), taken.events.begin(), taken.events.begin() + taken.count);
      const uint32_t next = taken.next;
      taken.next = free_;
      free_ = chunk;
      chunk = next;
    }
    heads_[place] = kNone;
    occupied_[place / 64] &= ~(uint64_t{1} << (place % 64));
  }

  size_t size_ = 0;
  uint64_t turns_ = 0;
  int64_t slot_ = 0;             // of current_
  std::vector<Event> current_;   // as it was when its turn came
  std::vector<uint64_t> order_;  // of current_: nanoseconds within the slot · 2^32 + index
  size_t next_ = 0;              // in order_
  std::vector<Event> late_;      // a heap: came for the present slot or one before, in its turn
  std::vector<Event> far_;       // a heap
  std::vector<Chunk> chunks_;
  uint32_t free_ = kNone;
  std::array<uint32_t, kSlots> heads_;
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
