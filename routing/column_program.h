// Linear programs that are given column by column: min c · x subject to A x = b, x ≥ 0, by the
// revised simplex method with a dense inverse of the basis.
//
// Made for bounds by column generation with up to a few hundred rows. Its duals are good, not
// exact: right sides are perturbed against cycling; who needs a valid bound prices its columns with
// these duals himself (Lagrange).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace skerry {

class ColumnProgram {
 public:
  struct Entry {
    int32_t row = 0;
    double value = 0;
  };

  // `right_sides` ≥ 0, one per row. `infeasible_cost`: of a unit by which a row is missed; more
  // than any row is worth.
  ColumnProgram(std::vector<double> right_sides, double infeasible_cost);

  void AddColumn(double cost, std::vector<Entry> entries);

  // Goes on from the last basis; gives up after `pivots_max` steps, then the duals are of the basis
  // so far.
  void Solve(int32_t pivots_max);

  const std::vector<double>& duals() const { return duals_; }  // [rows]
  double objective() const;

 private:
  struct Column {
    double cost = 0;
    std::vector<Entry> entries;
  };

  double& Inverse(size_t row, size_t column) { return inverse_[row * rows_ + column]; }
  void UpdateDuals();
  // The column whose reduced cost is least; −1 if none is negative.
  int32_t Entering() const;
  bool Pivot(int32_t entering);

  size_t rows_;
  std::vector<Column> columns_;  // the first `rows_` are artificial
  std::vector<double> inverse_;  // [rows, rows]
  std::vector<int32_t> basis_;   // [rows] columns
  std::vector<double> values_;   // [rows] of the basic columns
  std::vector<double> duals_;
  std::vector<double> direction_;
};

}  // namespace skerry
