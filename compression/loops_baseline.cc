#include <algorithm>
#include <bit>
#include <cmath>

#include "compression/fixed_point.h"
#include "compression/loops.h"
#include "compression/ternary_step.h"

namespace skerry {
namespace {

#define SKERRY_LEVEL 0
#define SKERRY_LOOPS_NAME "baseline"
#include "compression/value_loops.h"
// Needs the values.
#include "compression/mark_loops.h"
#include "compression/mask_loops.h"
#include "compression/product_loops.h"
#include "compression/select_loops.h"
// Needs both.
#include "compression/loops_table.h"

}  // namespace

const CodecLoops& BaselineLoops() {
  return kLoops;
}

}  // namespace skerry
