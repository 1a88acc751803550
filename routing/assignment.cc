#include "routing/assignment.h"

#include <limits>

#include "common/check.h"

namespace skerry {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Rows and columns count from 1; column 0 holds the row being inserted.
class Hungarian {
 public:
  Hungarian(const std::vector<double>& cost, int32_t rows, int32_t columns)
      : cost_(cost),
        columns_(static_cast<size_t>(columns)),
        row_potential_(static_cast<size_t>(rows) + 1),
        column_potential_(columns_ + 1),
        row_of_(columns_ + 1),
        previous_(columns_ + 1) {}

  void Insert(size_t row) {
    row_of_[0] = row;
    std::vector<double> slack(columns_ + 1, kInfinity);
    std::vector<bool> reached(columns_ + 1);
    size_t column = 0;
    do {
      reached[column] = true;
      column = Extend(column, slack, reached);
    } while (row_of_[column] != 0);
    while (column != 0) {
      row_of_[column] = row_of_[previous_[column]];
      column = previous_[column];
    }
  }

  double Total() const {
    double total = 0;
    for (size_t column = 1; column <= columns_; ++column) {
      if (row_of_[column] != 0) total += Cost(row_of_[column], column);
    }
    return total;
  }

 private:
  double Cost(size_t row, size_t column) const { return cost_[(row - 1) * columns_ + column - 1]; }

  // One step of the shortest augmenting path: the nearest column not reached yet.
  size_t Extend(size_t from, std::vector<double>& slack, const std::vector<bool>& reached) {
    const size_t row = row_of_[from];
    size_t nearest = 0;
    double least = kInfinity;
    for (size_t column = 1; column <= columns_; ++column) {
      if (reached[column]) continue;
      const double reduced = Cost(row, column) - row_potential_[row] - column_potential_[column];
      if (reduced < slack[column]) {
        slack[column] = reduced;
        previous_[column] = from;
      }
      if (slack[column] < least) {
        least = slack[column];
        nearest = column;
      }
    }
    for (size_t column = 0; column <= columns_; ++column) {
      if (reached[column]) {
        row_potential_[row_of_[column]] += least;
        column_potential_[column] -= least;
      } else {
        slack[column] -= least;
      }
    }
    return nearest;
  }

  const std::vector<double>& cost_;
  size_t columns_;
  std::vector<double> row_potential_;
  std::vector<double> column_potential_;
  std::vector<size_t> row_of_;    // [columns + 1] 0: free
  std::vector<size_t> previous_;  // [columns + 1] on the augmenting path
};

}  // namespace

double LeastAssignment(const std::vector<double>& cost, int32_t rows, int32_t columns) {
  SKERRY_CHECK(rows >= 0 && rows <= columns);
  SKERRY_CHECK(cost.size() == static_cast<size_t>(rows) * static_cast<size_t>(columns));
  Hungarian solver(cost, rows, columns);
  for (int32_t row = 1; row <= rows; ++row) solver.Insert(static_cast<size_t>(row));
  return solver.Total();
}

}  // namespace skerry
