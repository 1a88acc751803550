// The linear assignment problem: the Hungarian method with potentials, O(rows² · columns).
#pragma once

#include <cstdint>
#include <vector>

namespace skerry {

// The least Σ cost[row, column(row)] over all ways to give each row a column of its own.
//   cost [rows, columns], finite, rows ≤ columns
double LeastAssignment(const std::vector<double>& cost, int32_t rows, int32_t columns);

}  // namespace skerry
