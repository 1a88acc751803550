#include "kernels/cpu/vocabulary.h"

#include <algorithm>

#include "kernels/backend.h"
#include "kernels/cpu/team.h"

namespace skerry {

void FetchRows(std::span<const int32_t> tokens, ConstMatrix table, Matrix out) {
  float* row = out.values;
  for (const int32_t token : tokens) {
    if (token == kTokenElsewhere) {
      row = std::fill_n(row, table.columns, 0.0f);
    } else {
      row = std::copy_n(table.values + token * table.columns, table.columns, row);
    }
  }
}

void AddToTable(const KernelTable& kernels, std::span<const int32_t> tokens, ConstMatrix d_out,
                Matrix d_table) {
  const float* row = d_out.values;
  for (const int32_t token : tokens) {
    if (token != kTokenElsewhere)
      kernels.add(row, d_table.values + token * d_table.columns, d_table.columns);
    row += d_out.columns;
  }
}

void DescribeLogits(const KernelTable& kernels, int threads, std::span<const int32_t> targets,
                    ConstMatrix logits, float* statistics) {
  InShares(threads, logits.rows, 1, [&](const Share& rows, int) {
    float* const tops = statistics + rows.first;
    kernels.logit_statistics({rows.last - rows.first, logits.columns, targets.data() + rows.first,
                              logits.values + rows.first * logits.columns, tops, tops + logits.rows,
                              tops + 2 * logits.rows});
  });
}

}  // namespace skerry
