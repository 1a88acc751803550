// The selection of the top-k code (tile_selection.h): a block of threads to a tile of 4096 values,
// which stay in registers while the k-th largest magnitude is found bit by bit.
#include "compression/cuda/values.h"
#include "compression/tile_levels.h"

namespace skerry::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr int kWarps = kThreads / kLanes;
constexpr int kValues = static_cast<int>(kTopKTile / kThreads);     // of a thread, 256 apart
constexpr uint32_t kLeastBits = std::bit_cast<uint32_t>(0x1p-37f);  // half the least step

struct Kept {
  uint16_t places[kTopKMax];
  uint32_t magnitudes[kTopKMax];
  size_t size;
};

struct TopKShared {
  BlockSums<unsigned> sums;
  unsigned before[kValues * kWarps];  // chosen values before those of a warp's row
  Kept kept;
  uint8_t minus[kTopKMax];
};

struct LaneTile {
  uint32_t bits[kValues];  // of u; zeros past the end

  __device__ __forceinline__ uint32_t Magnitude(int j) const { return bits[j] & kMagnitudeMask; }
  __device__ __forceinline__ unsigned CountAtLeast(uint32_t least, TopKShared& shared) const {
    unsigned own = 0;
#pragma unroll
    for (int j = 0; j < kValues; ++j) own += Magnitude(j) >= least ? 1 : 0;
    return BlockSum(own, shared.sums);
  }
};

__device__ __forceinline__ int PlaceOf(int j) {
  return j * static_cast<int>(kThreads) + static_cast<int>(threadIdx.x);
}

// How many flags of values before each of this thread's are set, in the order of the tile.
__device__ __forceinline__ void RankInTile(uint32_t flags, TopKShared& shared,
                                           unsigned (&ranks)[kValues]) {
  const unsigned lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kValues; ++j) {
    const uint32_t row = __ballot_sync(kWholeWarp, ((flags >> j) & 1) != 0);
    ranks[j] = static_cast<unsigned>(__popc(row & ((1u << lane) - 1)));
    if (lane == 0) shared.before[j * kWarps + static_cast<int>(warp)] = __popc(row);
  }
  __syncthreads();
  // The first warp's work. All take part in the scan: a compiler cannot know that a warp is here as
  // a whole, and what it makes of a shuffle then spills on some generations.
  constexpr int kEach = kValues * kWarps / static_cast<int>(kLanes);
  unsigned* own = shared.before + lane * kEach;
  unsigned total = 0;
  if (warp == 0) {
    for (int i = 0; i < kEach; ++i) total += own[i];
  }
  unsigned through = total;
#pragma unroll
  for (unsigned up = 1; up < kLanes; up *= 2) {
    const unsigned other = __shfl_up_sync(kWholeWarp, through, up);
    if (lane >= up) through += other;
  }
  if (warp == 0) {
    unsigned so_far = through - total;
    for (int i = 0; i < kEach; ++i) {
      const unsigned count = own[i];
      own[i] = so_far;
      so_far += count;
    }
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kValues; ++j) {
    ranks[j] += shared.before[j * kWarps + static_cast<int>(warp)];
  }
}

// Flags of the k largest, of equal ones the first; or of all that reach half the least step, when
// fewer do.
__device__ __forceinline__ uint32_t Choose(const LaneTile& tile, unsigned k, TopKShared& shared,
                                           unsigned* size) {
  const unsigned reaching = tile.CountAtLeast(kLeastBits, shared);
  uint32_t threshold = kLeastBits, chosen = 0;
  *size = reaching < k ? reaching : k;
  unsigned ties = k;
  if (reaching > k) {
    threshold = 0;
    for (int bit = 30; bit >= 0; --bit) {
      const unsigned reach = tile.CountAtLeast(threshold | 1u << bit, shared);
      if (reach >= k) threshold |= 1u << bit;
      if (reach == k) break;
    }
    ties = k - tile.CountAtLeast(threshold + 1, shared);
  }
  uint32_t equal = 0;
#pragma unroll
  for (int j = 0; j < kValues; ++j) {
    const uint32_t magnitude = tile.Magnitude(j);
    chosen |= (reaching > k ? magnitude > threshold : magnitude >= threshold) ? 1u << j : 0;
    equal |= reaching > k && magnitude == threshold ? 1u << j : 0;
  }
  if (reaching <= k) return chosen;
  unsigned ranks[kValues];
  RankInTile(equal, shared, ranks);
#pragma unroll
  for (int j = 0; j < kValues; ++j) {
    if (((equal >> j) & 1) != 0 && ranks[j] < ties) chosen |= 1u << j;
  }
  return chosen;
}

// One thread: levels and signs of what was kept.
__device__ TileSelection Describe(const TopKShared& shared, unsigned k) {
  TileSelection out;
  const bool filled = shared.kept.size < k;
  if (filled) {
    FillUp(shared.kept, k, &out);
  } else {
    for (unsigned j = 0; j < k; ++j) out.places[j] = shared.kept.places[j];
    ChooseLevels(shared.kept, &out);
  }
  unsigned next = 0;
  for (unsigned j = 0; j < k; ++j) {
    if (filled && ((out.high >> j) & 1) == 0) continue;
    out.minus |= static_cast<uint64_t>(shared.minus[next++]) << j;
  }
  return out;
}

__global__ void __launch_bounds__(kThreads)
    TopKKernel(GpuDelta d, TileSelection* tiles, uint32_t* voided) {
  auto& shared = Shared<TopKShared>();
  const int64_t first = static_cast<int64_t>(blockIdx.x) * static_cast<int64_t>(kTopKTile);
  const int64_t left = d.n - first;
  const int count =
      left < static_cast<int64_t>(kTopKTile) ? static_cast<int>(left) : static_cast<int>(kTopKTile);
  const auto k = static_cast<unsigned>(KeptOf(static_cast<size_t>(count)));
  LaneTile tile;
#pragma unroll
  for (int j = 0; j < kValues; ++j) {
    tile.bits[j] = PlaceOf(j) < count ? std::bit_cast<uint32_t>(DeltaAt(d, first + PlaceOf(j))) : 0;
    if (tile.Magnitude(j) > kMagnitudeMaxBits) *voided = 1;
  }
  unsigned size, ranks[kValues];
  const uint32_t chosen = Choose(tile, k, shared, &size);
  RankInTile(chosen, shared, ranks);
#pragma unroll
  for (int j = 0; j < kValues; ++j) {
    if (((chosen >> j) & 1) == 0) continue;
    shared.kept.places[ranks[j]] = static_cast<uint16_t>(PlaceOf(j));
    shared.kept.magnitudes[ranks[j]] = tile.Magnitude(j);
    shared.minus[ranks[j]] = static_cast<uint8_t>(tile.bits[j] >> 31);
  }
  if (threadIdx.x == 0) shared.kept.size = size;
  __syncthreads();
  if (threadIdx.x == 0) tiles[blockIdx.x] = Describe(shared, k);
}

// A thread to a kept value.
template <typename Visit>
__device__ __forceinline__ void ForKept(const TileSelection* tiles, int64_t n, Visit&& visit) {
  const TileSelection& tile = tiles[blockIdx.x];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * static_cast<int64_t>(kTopKTile);
  const int64_t left = n - first;
  const size_t count =
      left < static_cast<int64_t>(kTopKTile) ? static_cast<size_t>(left) : kTopKTile;
  const unsigned j = threadIdx.x;
  if (j >= KeptOf(count)) return;
  const int64_t units = LevelsOf(tile.step, tile.ratio)[(tile.high >> j) & 1];
  visit(first + tile.places[j], ((tile.minus >> j) & 1) != 0 ? -units : units);
}

__global__ void AccumulateKernel(const TileSelection* tiles, int64_t n, int64_t weight,
                                 int64_t* sum) {
  ForKept(tiles, n, [&](int64_t place, int64_t units) { sum[place] += units * weight; });
}

__global__ void DecodeKernel(const TileSelection* tiles, int64_t n, float* values) {
  ForKept(tiles, n, [&](int64_t place, int64_t units) {
    values[place] = static_cast<float>(static_cast<double>(units) * kQuantum);
  });
}

unsigned TilesOf(int64_t n) {
  return static_cast<unsigned>(CeilDivide(n, static_cast<int64_t>(kTopKTile)));
}

}  // namespace

void EncodeTopK(GpuDevice& device, const GpuDelta& d, uint8_t* symbols, uint32_t* voided) {
  Launch(device, {dim3{TilesOf(d.n)}, kThreads, sizeof(TopKShared)}, TopKKernel, d,
         reinterpret_cast<TileSelection*>(symbols), voided);
}

void AccumulateTopK(GpuDevice& device, int64_t n, const uint8_t* symbols, int64_t weight,
                    int64_t* sum) {
  Launch(device, {dim3{TilesOf(n)}, static_cast<unsigned>(kTopKMax), 0}, AccumulateKernel,
         reinterpret_cast<const TileSelection*>(symbols), n, weight, sum);
}

void DecodeTopK(GpuDevice& device, int64_t n, const uint8_t* symbols, float* values) {
  NoteFailure(device, SetZero(device.stream, values, static_cast<size_t>(n) * sizeof(float)));
  Launch(device, {dim3{TilesOf(n)}, static_cast<unsigned>(kTopKMax), 0}, DecodeKernel,
         reinterpret_cast<const TileSelection*>(symbols), n, values);
}

}  // namespace skerry::cuda
