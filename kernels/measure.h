// How fast a backend multiplies matrices: what the planner divides the work by.
#pragma once

#include "kernels/backend.h"

namespace skerry {

// GFLOP/s of a training-shape product in the backend's compute type (2 FLOP per multiply-add), the
// best call of about 100 ms. The number of tokens grows until one call is long enough to be timed;
// where that is not enough, as of a GPU, the width, and then how many are given at once. 0 if the
// backend has no memory for the matrices. Reads the clock: the figure differs from call to call.
double MeasureGflops(Backend& backend);

}  // namespace skerry
