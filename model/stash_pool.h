// The stashes of a stage's microbatches, of one size: all on the device, or some of them elsewhere
// while their microbatch is on its way through later stages (stash_store.h).
//
// Microbatches come back about in the order in which they left, so the newest are written out, and
// the oldest are read back before they are asked for. What was written keeps its buffer until that
// is wanted, and what is read its place elsewhere, so either may go without another move:
//
//   a forward pass is through    fewer than two buffers are free, or written: the newest is written
//   one begins                   takes a free buffer, or that which was written first
//   a backward pass begins, or   the oldest that is away is read, if it is one of the next two, and
//   ends                         a buffer is left for the next forward pass
//
// Any other order is right, too, but waits. With two resident stashes of a full window each is
// written during the backward pass that follows and read during a forward pass.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/stash_store.h"

namespace skerry {

// Owned by one thread; the backend outlives it.
class StashPool {
 public:
  using Id = int64_t;  // 1, 2, …: older ones are smaller

  // ResourceExhausted, FailedPrecondition, Unavailable: the store does not open; its errors.
  static absl::StatusOr<std::unique_ptr<StashPool>> Create(Backend* backend, int64_t floats,
                                                           const StashParking& parking = {});

  // A stash for a forward pass. Contents are whatever was there. Beyond what is resident and parked
  // it takes more of the backend. ResourceExhausted if that has no memory left; the store's errors,
  // then nothing is lost.
  absl::StatusOr<Id> Take();
  // Its forward pass is through, and it waits.
  void Keep(Id id);
  // On the device from now on until Give, for its backward pass. The store's errors: then it is
  // where it was.
  absl::Status Fetch(Id id);
  void Give(Id id);  // at any time; 0 is fine

  float* data(Id id) const;                         // after Take until Keep, after Fetch until Give
  int64_t allocated() const { return allocated_; }  // buffers on the device, taken and free
  int64_t HeldBytes() const;                        // of them, and of the host
  // How often it waited for a move beside which no pass had been computed: 0 where passes come in
  // turn, however slow the store is.
  int64_t exposed_moves() const { return exposed_; }
  // Gives the free ones back to the backend.
  void Trim();

 private:
  struct Stash {
    std::unique_ptr<Buffer> buffer;  // nullptr: away
    int32_t slot = -1;               // where it is, or will be, elsewhere
    int64_t move = 0;                // the last to or from there
    bool is_read = false;            // that move fills the buffer
    bool in_use = true;
    // May give its buffer up once `move` is done.
    bool HasCopy() const { return buffer != nullptr && slot >= 0 && !in_use; }
  };
  struct FreeBuffer {
    std::unique_ptr<Buffer> buffer;
    int64_t move = 0;  // of whoever had it, under way perhaps
  };

  StashPool(Backend* backend, int64_t floats) : backend_(backend), floats_(floats) {}
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate();
  absl::StatusOr<std::unique_ptr<Buffer>> Obtain();
  absl::StatusOr<std::unique_ptr<Buffer>> Evict(Stash& stash);
  Stash* BestToEvict();
  bool WriteNewest();
  void ReadAhead();
  bool IsDue(std::map<Id, Stash>::const_iterator away) const;
  std::unique_ptr<Buffer> ObtainAtOnce();
  absl::Status Await(int64_t move);
  void Recycle(std::unique_ptr<Buffer> buffer, int64_t move);
  int64_t Spare() const {
    return std::ssize(free_) + std::max<int64_t>(0, residents_ - allocated_);
  }
  int64_t Written() const;  // that have a copy and are not read ahead

  Backend* backend_;
  int64_t floats_;
  int64_t residents_ = 0;
  bool is_aligned_ = false;
  int64_t allocated_ = 0;
  Id last_ = 0;
  int64_t last_move_ = 0, last_hidden_ = 0;  // begun; begun before the last pass ended
  int64_t exposed_ = 0;
  std::map<Id, Stash> stashes_;
  std::vector<FreeBuffer> free_;
  std::vector<int32_t> slots_;         // free ones
  std::unique_ptr<StashStore> store_;  // ends before the buffers do; nullptr: nothing is parked
};

}  // namespace skerry
