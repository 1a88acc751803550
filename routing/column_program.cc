#include "routing/column_program.h"

#include <limits>
#include <utility>

#include "common/check.h"

namespace skerry {
namespace {

constexpr double kTolerance = 1e-9;
constexpr double kPerturbation = 1e-7;

}  // namespace

ColumnProgram::ColumnProgram(std::vector<double> right_sides, double infeasible_cost)
    : rows_(right_sides.size()),
      inverse_(rows_ * rows_),
      basis_(rows_),
      values_(std::move(right_sides)),
      duals_(rows_),
      direction_(rows_) {
  for (size_t row = 0; row < rows_; ++row) {
    SKERRY_CHECK(values_[row] >= 0);
    values_[row] += kPerturbation * static_cast<double>(1 + row * 7 % rows_);
    Inverse(row, row) = 1;
    basis_[row] = static_cast<int32_t>(row);
    columns_.push_back({infeasible_cost, {{static_cast<int32_t>(row), 1.0}}});
  }
}

void ColumnProgram::AddColumn(double cost, std::vector<Entry> entries) {
  columns_.push_back({cost, std::move(entries)});
}

void ColumnProgram::UpdateDuals() {
  duals_.assign(rows_, 0);
  for (size_t row = 0; row < rows_; ++row) {
    const double cost = columns_[static_cast<size_t>(basis_[row])].cost;
    if (cost == 0) continue;
    for (size_t k = 0; k < rows_; ++k) duals_[k] += cost * Inverse(row, k);
  }
}

int32_t ColumnProgram::Entering() const {
  int32_t entering = -1;
  double least = -kTolerance;
  for (size_t c = rows_; c < columns_.size(); ++c) {
    double reduced = columns_[c].cost;
    for (const Entry& entry : columns_[c].entries) {
      reduced -= duals_[static_cast<size_t>(entry.row)] * entry.value;
    }
    if (reduced < least) {
      least = reduced;
      entering = static_cast<int32_t>(c);
    }
  }
  return entering;
}

bool ColumnProgram::Pivot(int32_t entering) {
  const Column& column = columns_[static_cast<size_t>(entering)];
  size_t leaving = rows_;
  double ratio = std::numeric_limits<double>::infinity();
  for (size_t row = 0; row < rows_; ++row) {
    direction_[row] = 0;
    for (const Entry& entry : column.entries) {
      direction_[row] += Inverse(row, static_cast<size_t>(entry.row)) * entry.value;
    }
    if (direction_[row] > kTolerance && values_[row] / direction_[row] < ratio) {
      ratio = values_[row] / direction_[row];
      leaving = row;
    }
  }
  if (leaving == rows_) return false;
  const double pivot = direction_[leaving];
  for (size_t k = 0; k < rows_; ++k) Inverse(leaving, k) /= pivot;
  for (size_t row = 0; row < rows_; ++row) {
    if (row == leaving || direction_[row] == 0) continue;
    for (size_t k = 0; k < rows_; ++k) Inverse(row, k) -= direction_[row] * Inverse(leaving, k);
    values_[row] -= direction_[row] * ratio;
  }
  values_[leaving] = ratio;
  basis_[leaving] = entering;
  return true;
}

void ColumnProgram::Solve(int32_t pivots_max) {
  for (int32_t pivot = 0; pivot < pivots_max; ++pivot) {
    UpdateDuals();
    const int32_t entering = Entering();
    if (entering < 0 || !Pivot(entering)) return;
  }
  UpdateDuals();
}

double ColumnProgram::objective() const {
  double sum = 0;
  for (size_t row = 0; row < rows_; ++row) {
    sum += columns_[static_cast<size_t>(basis_[row])].cost * values_[row];
  }
  return sum;
}

}  // namespace skerry
