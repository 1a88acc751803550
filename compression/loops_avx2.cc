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

#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,popcnt")
namespace {
#define SKERRY_LEVEL 1
#define SKERRY_LOOPS_NAME "AVX2"
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

const CodecLoops* Avx2Loops() {
  const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                   __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
  return has ? &kLoops : nullptr;
}

#else

const CodecLoops* Avx2Loops() {
  return nullptr;
}

#endif

}  // namespace skerry
