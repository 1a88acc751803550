// The order of a simulation: events by (time, process, sequence), whatever order they came in.
//
// Events are plain data: what they mean is looked up when they are due. They lie in a timing wheel
// of two levels (Varghese and Lauck, SOSP 1987, section 6.2): slots of about a millisecond for the
// present epoch of 4096, one slot for each of the 4096 epochs to come, a heap for what is later
// still (five hours). A slot is put in order when its turn comes; what comes later for the present
// slot goes into a heap beside it. The slots share one pool of chunks, of which the one freed last
// is taken first: so the caches hold what is pending, and not every slot there is.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
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
  const Event& front() const { return IsLateFirst() ? late_.front() : FirstInOrder(); }

  void Push(const Event& event) {
    const int64_t slot = SlotOf(event);
    if (size_++ == 0) {
      slot_ = slot;
      epoch_ = EpochOf(slot);
    }
    if (slot <= slot_) {
      PushHeap(late_, event);
    } else {
      PutLater(event);
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
  static constexpr int kSlotBits = 20;   // 2^20 ns
  static constexpr int kEpochBits = 12;  // 2^12 slots
  static constexpr int64_t kSlots = int64_t{1} << kEpochBits;
  static constexpr size_t kWords = kSlots / 64;
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr uint32_t kChunkEvents = 8;

  struct Chunk {
    uint32_t next = kNone;  // of the same slot, or free
    uint32_t count = 0;
    std::array<Event, kChunkEvents> events;
  };

  // One level: the chunks of kSlots slots.
  struct Ring {
    Ring() { heads.fill(kNone); }
    // Slots from `place` on, around the ring, to the first that holds something; −1 if none does.
    int64_t Next(size_t place) const {
      for (size_t i = 0; i <= kWords; ++i) {
        const size_t word = (place / 64 + i) % kWords;
        uint64_t bits = occupied[word];
        if (i == 0) bits &= ~uint64_t{0} << (place % 64);
        if (i == kWords) bits &= ~(~uint64_t{0} << (place % 64));
        if (bits == 0) continue;
        const size_t found = word * 64 + static_cast<size_t>(std::countr_zero(bits));
        return static_cast<int64_t>((found + kSlots - place) % kSlots);
      }
      return -1;
    }
    std::array<uint32_t, kSlots> heads;
    std::array<uint64_t, kWords> occupied{};
  };

  static int64_t SlotOf(const Event& event) { return event.at >> kSlotBits; }
  static int64_t EpochOf(int64_t slot) { return slot >> kEpochBits; }
  static size_t PlaceOf(int64_t number) { return static_cast<size_t>(number % kSlots); }

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

  void Put(Ring& ring, int64_t number, const Event& event) {
    const size_t place = PlaceOf(number);
    uint32_t& head = ring.heads[place];
    if (head == kNone || chunks_[head].count == kChunkEvents) {
      const uint32_t fresh = NewChunk();
      chunks_[fresh].next = head;
      head = fresh;
      ring.occupied[place / 64] |= uint64_t{1} << (place % 64);
    }
    Chunk& chunk = chunks_[head];
    chunk.events[chunk.count++] = event;
  }

  void PutLater(const Event& event) {
    const int64_t slot = SlotOf(event), epoch = EpochOf(slot);
    if (epoch == epoch_) {
      Put(near_, slot, event);
    } else if (epoch - epoch_ < kSlots) {
      Put(epochs_, epoch, event);
    } else {
      PushHeap(far_, event);
    }
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

  // Goes on to the next slot that holds something.
  void Turn() {
    ++turns_;
    int64_t ahead = near_.Next(PlaceOf(slot_));
    if (ahead < 0) {
      EnterNextEpoch();
      ahead = near_.Next(PlaceOf(slot_));
    }
    slot_ += ahead;
    current_.clear();
    TakeOut(near_, slot_, [this](const Chunk& chunk) {
      current_.insert(current_.end(), chunk.events.begin(), chunk.events.begin() + chunk.count);
    });
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

  // Called when nothing is left of the present one: slot_ becomes the first of the next.
  void EnterNextEpoch() {
    const int64_t ahead = epochs_.Next(PlaceOf(epoch_));
    epoch_ = ahead >= 0 ? epoch_ + ahead : EpochOf(SlotOf(far_.front()));
    slot_ = epoch_ << kEpochBits;
    while (!far_.empty() && EpochOf(SlotOf(far_.front())) - epoch_ < kSlots)
      PutLater(PopHeap(far_));
    TakeOut(epochs_, epoch_, [this](const Chunk& chunk) {
      // Putting takes chunks, and may move them.
      const std::array<Event, kChunkEvents> events = chunk.events;
      const uint32_t count = chunk.count;
      for (uint32_t i = 0; i < count; ++i) Put(near_, SlotOf(events[i]), events[i]);
    });
  }

  template <typename Visit>
  void TakeOut(Ring& ring, int64_t number, Visit&& visit) {
    const size_t place = PlaceOf(number);
    uint32_t chunk = std::exchange(ring.heads[place], kNone);
    ring.occupied[place / 64] &= ~(uint64_t{1} << (place % 64));
    while (chunk != kNone) {
      const uint32_t next = chunks_[chunk].next;
      visit(chunks_[chunk]);
      chunks_[chunk].next = free_;
      free_ = chunk;
      chunk = next;
    }
  }

  size_t size_ = 0;
  uint64_t turns_ = 0;
  int64_t slot_ = 0;             // of current_
  int64_t epoch_ = 0;            // of slot_
  std::vector<Event> current_;   // as it was when its turn came
  std::vector<uint64_t> order_;  // of current_: nanoseconds within the slot · 2^32 + index
  size_t next_ = 0;              // in order_
  std::vector<Event> late_;      // a heap: came for the present slot or one before, in its turn
  Ring near_;                    // slots of this epoch, after the present one
  Ring epochs_;                  // those after this one
  std::vector<Event> far_;       // a heap
  std::vector<Chunk> chunks_;
  uint32_t free_ = kNone;
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
