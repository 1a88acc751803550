// A bias on every row, and its gradient, the sum of all rows. Columns are cut over the threads, so
// that a sum is one thread's, in the order of the rows.
#pragma once

#include "kernels/cpu/kernel_table.h"
#include "kernels/tensor_view.h"

namespace skerry {

void AddToRows(const KernelTable& kernels, int threads, const float* bias, const Tensor& y);
void SumRows(const KernelTable& kernels, int threads, const ConstTensor& x, float* sums);

}  // namespace skerry
