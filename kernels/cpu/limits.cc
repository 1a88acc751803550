#include "kernels/cpu/limits.h"

#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/tile_shapes.h"

namespace skerry {
namespace {

// Ten chains hide the latency of a multiply-add and fit the registers of every instruction set; a
// product of pairs takes longer.
constexpr int kChains = 10;
constexpr int kPairChains = 16;
constexpr int64_t kRounds = 400'000;

// What chains begin with. The compiler may not know: of equal chains it would compute one.
volatile float first_values[kPairChains] = {};

template <typename T>
void Keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

typedef float Lanes4 __attribute__((vector_size(16)));
typedef float Lanes8 __attribute__((vector_size(32)));
typedef float Lanes16 __attribute__((vector_size(64)));

template <typename Lanes>
[[gnu::always_inline]] inline void RunChains(int64_t rounds) {
  Lanes sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = Lanes{} + first_values[i];
  const Lanes factor = Lanes{} + 0.999f, term = Lanes{} + 0.001f;
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 10
    for (Lanes& sum : sums) sum = sum * factor + term;
  }
  for (const Lanes& sum : sums) Keep(sum[0]);
}

void Chains(int64_t rounds) {
  RunChains<Lanes4>(rounds);
}

double Rate(void (*chains)(int64_t), int64_t rounds, int flops, int count = kChains) {
  chains(rounds);
  double best = 1e30;
  for (int i = 0; i < 3; ++i) {
    const double start = ThreadSeconds();
    chains(rounds);
    const double seconds = ThreadSeconds() - start;
    best = seconds < best ? seconds : best;
  }
  return 1e-9 * flops * count * static_cast<double>(rounds) / best;
}

#if defined(__x86_64__)
__attribute__((target("avx512f"), optimize("fp-contract=fast"))) void ChainsAvx512(int64_t rounds) {
  RunChains<Lanes16>(rounds);
}
__attribute__((target("avx2,fma"), optimize("fp-contract=fast"))) void ChainsAvx2(int64_t rounds) {
  RunChains<Lanes8>(rounds);
}
__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) void ChainsBf16(int64_t rounds) {
  __m512 sums[kPairChains];
  for (int i = 0; i < kPairChains; ++i) sums[i] = _mm512_set1_ps(first_values[i]);
  const auto pairs = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3c00));
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, pairs, pairs);
  }
  for (const __m512& sum : sums) Keep(sum[0]);
}

// Four tiles of sums, two to be multiplied: six of eight, as products of matrices use them.
constexpr int kTileChains = 4;
constexpr int kTileFlops = 2 * 16 * 16 * 32;
__attribute__((target("amx-tile,amx-bf16"))) void ChainsAmx(int64_t rounds) {
  const TileShapes shapes;
  Keep(&shapes);  // g++ does not know that the next instruction reads it
  _tile_loadconfig(&shapes);
  for (int64_t i = 0; i < rounds; ++i) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_release();
}

double PeakOf(DType type, int64_t rounds) {
  if (type == DType::kBfloat16)
    return __builtin_cpu_supports("avx512bf16") ? Rate(ChainsBf16, rounds, 64, kPairChains) : 0;
  if (__builtin_cpu_supports("avx512f")) return Rate(ChainsAvx512, rounds, 32);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return Rate(ChainsAvx2, rounds, 16);
  return Rate(Chains, rounds, 8);
}
#else
double PeakOf(DType type, int64_t rounds) {
  return type == DType::kBfloat16 ? 0 : Rate(Chains, rounds, 8);
}
#endif

}  // namespace

double PeakGflops(DType type) {
#if defined(__x86_64__)
  constexpr int64_t kSlower = 16;  // cycles of a product of tiles
  if (type == DType::kBfloat16 && HasAmx())
    return Rate(ChainsAmx, kRounds / kSlower, kTileFlops, kTileChains);
#endif
  return PeakOf(type, kRounds);
}

bool PairsBeatFloats() {
  constexpr int64_t kFewRounds = kRounds / 20;
  static const bool they_do =
      PeakOf(DType::kBfloat16, kFewRounds) > PeakOf(DType::kFloat32, kFewRounds);
  return they_do;
}

Triad::Triad(int64_t floats)
    : a_(static_cast<size_t>(floats), 0.0f),
      b_(static_cast<size_t>(floats), 1.0f),
      c_(static_cast<size_t>(floats), 2.0f) {}

double Triad::Measure() {
  const double start = ThreadSeconds();
  float* const a = a_.data();
  const float *const b = b_.data(), *const c = c_.data();
  const size_t n = a_.size() / 16 * 16;
  for (size_t i = 0; i < n; i += 16) {
    Lanes16 x, y;
    __builtin_memcpy(&x, b + i, sizeof(x));
    __builtin_memcpy(&y, c + i, sizeof(y));
    x += y * 3.0f;
    __builtin_memcpy(a + i, &x, sizeof(x));
  }
  Keep(a[n / 2]);
  return 12e-9 * static_cast<double>(n) / (ThreadSeconds() - start);
}

double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace skerry
