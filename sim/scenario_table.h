// Data tables beside a scenario: CSV with a header line, '#' comments, no quotes.
//
// Cells are trimmed of blanks. Every row has as many cells as the header; a file has at most
// kTableRowsMax rows.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace skerry {

inline constexpr size_t kTableRowsMax = 1'000'000;

struct DataTable {
  struct Row {
    int line = 0;  // in the file, from 1
    std::vector<std::string> cells;
  };

  std::string file;
  std::vector<std::string> columns;
  std::vector<Row> rows;

  bool Has(const std::string& column) const;
  // The index of a column. InvalidArgument names the columns there are.
  absl::StatusOr<size_t> Column(const std::string& column) const;
  // A finite number in [min, max]. InvalidArgument with file and line.
  absl::StatusOr<double> Number(const Row& row, size_t column, double min, double max) const;
};

// `file` only names the table in messages.
absl::StatusOr<DataTable> ParseDataTable(const std::string& text, const std::string& file);

// NotFound if it is not there.
absl::StatusOr<DataTable> LoadDataTable(const std::string& path);

}  // namespace skerry
