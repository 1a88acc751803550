#include <algorithm>
#include <bit>
#include <cmath>

#include "compression/fixed_point.h"
#include "compression/loops.h"
#include "compression/ternary_step.h"

#if defined(__x86_64__) && !defined(__clang__)
#include <immintrin.h>
#endif

// clang knows no target pragma: what it builds runs the baseline loops, which give the same bits.
namespace skerry {

#if defined(__x86_64__) && !defined(__clang__)

// The intrinsics of g++ 12 begin with a vector that they never read (its bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,bmi,bmi2,popcnt,prefer-vector-width=512")
namespace {
#define SKERRY_LEVEL 2
#define SKERRY_LOOPS_NAME "AVX-512"
#include "compression/value_loops.h"
// Needs the values.
#include "compression/mark_loops.h"
#include "compression/mask_loops.h"
#include "compression/product_loops.h"
#include "compression/select_loops.h"
// Needs both.
#include "compression/loops_table.h"
}  // namespace
#pragma GCC pop_options

const CodecLoops* Avx512Loops() {
  const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                   Avx2Loops() != nullptr;
  return has ? &kLoops : nullptr;
}

#else

const CodecLoops* Avx512Loops() {
  return nullptr;
}

#endif

}  // namespace skerry
