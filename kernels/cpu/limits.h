// What one core of this machine can do at most, measured here and now: what operations are held
// against.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/dtype.h"

namespace skerry {

// GFLOP/s (2 FLOP per multiply-add) of independent multiply-adds held in registers, with the widest
// instructions of this processor; bf16 pairs with float32 sums for kBfloat16, by AMX where there is
// that, 0 where it has none.
// About 10 ms of the calling thread.
double PeakGflops(DType type);

// Whether this processor multiplies pairs of bf16 faster than floats. Not all that have
// instructions for it do: AMD's Zen 4 and 5 twice as fast, Intel's without AMX half as fast.
// Measured in 1 ms, on the first call; no call changes its mind.
bool PairsBeatFloats();

// The STREAM triad a = b + s·c (McCalpin 1995) over arrays that no cache holds, 12 bytes an element
// counted: what a core moves at most between memory and registers while it computes.
class Triad {
 public:
  explicit Triad(int64_t floats = int64_t{16} << 20);
  // GB/s of one pass, processor time of the calling thread.
  double Measure();

 private:
  std::vector<float> a_, b_, c_;
};

// Processor seconds that the calling thread has used. Not wall time: what other processes take of a
// shared machine is not ours.
double ThreadSeconds();

}  // namespace skerry
