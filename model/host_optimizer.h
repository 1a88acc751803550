// AdamW made by the host for parameters on a device: the moments are in the host's memory, where
// there is more of it, and gradients and weights cross in pieces, while the host works on the piece
// before (Ren et al., "ZeRO-Offload: Democratizing Billion-Scale Model Training", 2021, section 4;
// there master weights are on the host, here they stay, for rounds and norms read them, so 12 bytes
// a parameter cross instead of 6). The step is not put off by one as theirs may be: same
// arithmetic.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/copy_lane.h"

namespace skerry {

// Used by the thread that owns both backends, which outlive it.
class HostOptimizer {
 public:
  static constexpr int64_t kPiece = int64_t{1} << 20;  // values; two are under way

  // For arenas of at most so many values. ResourceExhausted: no memory for the pieces.
  static absl::StatusOr<std::unique_ptr<HostOptimizer>> Create(int64_t values, Backend* device,
                                                               Backend* host);

  // As Backend::AdamW of the device, of ranges in ascending order; m and v are host memory.
  // `rounded` is left to the caller. Done on return.
  void AdamW(const AdamWStep& step, std::span<const UpdateRange> ranges,
             const UpdateArrays& arrays);

  Backend& host() { return *host_; }
  static int64_t HeldBytes(int64_t values);
  int64_t HeldBytes() const { return HeldBytes(piece_); }

 private:
  struct Slot {
    float *gradient = nullptr, *weights = nullptr;  // [piece_]
    int64_t fetched = 0;                            // the lane's number of the last copy
  };
  HostOptimizer(int64_t piece, Backend* host) : piece_(piece), host_(host) {}
  // Of `ranges` what is among `values` from `first` on, counted from there.
  std::span<const UpdateRange> Inside(std::span<const UpdateRange> ranges, int64_t first,
                                      int64_t values);

  int64_t piece_;
  Backend* host_;
  std::unique_ptr<CopyLane> lane_;
  Slot slots_[2];
  std::vector<UpdateRange> inside_;
};

}  // namespace skerry
