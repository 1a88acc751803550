// The ternary code's symbols (ternary.h): a warp to a block of 256 values.
#include "compression/cuda/values.h"

namespace skerry::cuda {
namespace {

constexpr unsigned kThreads = 128;
constexpr int64_t kWarps = kThreads / kLanes;
// As ternary.cc.
constexpr int kPlacesMax = 52;
constexpr int kRaisesMax = 3;

__device__ __forceinline__ int CountAtLeast(const LaneBlock& block, uint8_t step) {
  const uint32_t half = std::bit_cast<uint32_t>(StepValue(step) / 2);
  int ones = 0;
#pragma unroll
  for (int j = 0; j < kValuesALane; ++j) {
    const bool reaches = block.Place(j) < block.count && MagnitudeBits(block.u[j]) >= half;
    ones += __popc(__ballot_sync(kWholeWarp, reaches));
  }
  return ones;
}

// Raises the step by quarters of an octave, three at most, while too many reach its half.
__device__ __forceinline__ uint8_t Rarefy(const LaneBlock& block, uint8_t step) {
  int ones = CountAtLeast(block, step);
  const int most = step + kRaisesMax < kStepCodeMax ? step + kRaisesMax : kStepCodeMax;
  for (int raised = step + 1; raised <= most && ones > kPlacesMax; ++raised) {
    const int left = CountAtLeast(block, static_cast<uint8_t>(raised));
    if (left == 0) break;
    if (left == ones) continue;
    ones = left;
    step = static_cast<uint8_t>(raised);
  }
  return step;
}

__global__ void TernaryKernel(GpuDelta d, uint32_t* nonzero, uint32_t* minus, uint8_t* steps,
                              uint32_t* voided) {
  LaneBlock block;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kLanes;
  if (!block.Form(d, index)) return;
  const bool fine = block.largest <= kMagnitudeMaxBits;
  if (!fine) *voided = 1;
  uint8_t step = fine ? NearestStep(std::bit_cast<float>(block.largest)) : 0;
  if (step != 0 && block.count == kSymbolBlock) step = Rarefy(block, step);
  const unsigned lane = threadIdx.x % kLanes;
  const uint32_t half = std::bit_cast<uint32_t>(StepValue(step) / 2);
  if (lane == 0) steps[index] = step;
#pragma unroll
  for (int j = 0; j < kValuesALane; ++j) {
    const bool some = step != 0 && block.Place(j) < block.count;
    const uint32_t bits = std::bit_cast<uint32_t>(block.u[j]);
    const uint32_t places = __ballot_sync(kWholeWarp, some && MagnitudeBits(block.u[j]) >= half);
    const uint32_t signs = __ballot_sync(kWholeWarp, some && bits >> 31 != 0);
    if (lane == 0) {
      nonzero[index * kValuesALane + j] = places;
      minus[index * kValuesALane + j] = signs;
    }
  }
}

}  // namespace

void EncodeTernary(GpuDevice& device, const GpuDelta& d, uint8_t* symbols, uint32_t* voided) {
  const auto blocks = static_cast<unsigned>(CeilDivide(SymbolBlocks(d.n), kWarps));
  const auto part = [&](int i) { return symbols + SymbolPartBegin(DeltaCodec::kTernary, i, d.n); };
  Launch(device, {dim3{blocks}, kThreads, 0}, TernaryKernel, d,
         reinterpret_cast<uint32_t*>(part(0)), reinterpret_cast<uint32_t*>(part(1)), part(2),
         voided);
}

}  // namespace skerry::cuda
