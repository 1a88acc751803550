// Where stashes lie that have no room on the device while their microbatch is on its way through
// later stages: a file, the host's memory, or a file by way of the host's memory. They move beside
// what the device computes.
//
// Whole stashes are moved, where SSDTrain (Wu et al., 2024, section 3.2) moves tensors: a
// microbatch of a pipeline over a wide-area network waits for many times its own passes, so there
// is nothing to gain from knowing which of its layers will be asked for first
// (docs/decisions/0068-activations-elsewhere.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace skerry {

// Slots besides: while one stash is written another that was read ahead has its copy still.
inline constexpr int32_t kSwapSlots = 2;

// Of one device.
struct StashParking {
  int32_t residents = 0;  // stashes on the device, ≥ 2; 0: all, nothing is parked
  int32_t parked = 0;     // and so many elsewhere, where there is room for kSwapSlots more
  std::string directory;  // on a disk; "": in host memory
  bool staged = false;    // to the disk by way of pinned host memory, where the device is a GPU
  bool IsOn() const { return residents > 0 && parked > 0; }
};

// Used by one thread. Has slots of equal size, numbered from 0.
class StashStore {
 public:
  virtual ~StashStore() = default;  // ends the move under way and drops those that have not begun

  // Start to write what is at `from` to a slot, to read a slot to `to`. The number of the move: 1,
  // 2, …; moves are made in that order. Until it is done memory that is written must stay as it is,
  // and memory that is read into is the store's.
  virtual int64_t Write(int32_t slot, const float* from) = 0;
  virtual int64_t Read(int32_t slot, float* to) = 0;
  // The device has computed a pass: what was begun before it may be done by now. Where a move is
  // made of two, the second begins here, or when the move is waited for.
  virtual void PassEnded() {}
  // Until that move, or 0, is done. Unavailable: a disk's error; DataLoss: somebody has cut the
  // file since that slot was written. As often as it is asked for.
  virtual absl::Status Wait(int64_t move) = 0;
  // Whether another move may have the same memory without a Wait.
  virtual bool CanFollow(int64_t move) = 0;
  virtual int64_t HeldBytes() const = 0;  // of the host's memory
};

// What memory of stashes in a file must be a multiple of, and begin on: disks are read and written
// past the page cache (O_DIRECT), which is the memory that was to be saved.
inline constexpr int64_t kStashBorder = 4096;

// A file of that many slots, without a name, so that nothing is left of it whatever happens; its
// space is taken here. A thread makes the moves. `floats` · 4 is a multiple of kStashBorder.
// FailedPrecondition: the directory lies in memory (tmpfs). ResourceExhausted: the disk is full.
// Unavailable: it cannot be written to.
absl::StatusOr<std::unique_ptr<StashStore>> OpenStashFile(const std::string& directory,
                                                          int32_t slots, int64_t floats);
// FailedPrecondition: files there lie in memory. Unavailable: there is no such directory.
absl::Status CheckOnDisk(const std::string& directory);

// What a directory's disk gives, bytes/s, by writing a file as above and reading it back: at most
// kMeasuredBytes and about half a second each way. The errors of OpenStashFile and Wait.
struct StashRates {
  double write_bytes_per_s = 0, read_bytes_per_s = 0;
  // Of what is written and read back, both ways counted: they take turns.
  double bytes_per_s() const { return 2 / (1 / write_bytes_per_s + 1 / read_bytes_per_s); }
};
inline constexpr int64_t kMeasuredBytes = int64_t{128} << 20;
absl::StatusOr<StashRates> MeasureStashFile(const std::string& directory);

// Pinned memory of the device's host, by its lane (kernels/copy_lane.h). ResourceExhausted.
absl::StatusOr<std::unique_ptr<StashStore>> OpenStashMemory(Backend& backend, int32_t slots,
                                                            int64_t floats);

// A file as above of what lies on a device that is not the processor. Each move is a copy by the
// lane and one by the file's thread, through one of kStagedStashes in pinned memory: as many as let
// the disk and the lane both be busy either way. The errors of both.
inline constexpr int32_t kStagedStashes = 4;
absl::StatusOr<std::unique_ptr<StashStore>> OpenStagedStashFile(Backend& backend,
                                                                const std::string& directory,
                                                                int32_t slots, int64_t floats);

}  // namespace skerry
