#include "sim/scenario_table.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "common/plain_number.h"
#include "common/status.h"
#include "wire/toml_reader.h"

namespace skerry {
namespace {

std::string Trim(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string> Split(const std::string& line) {
  std::vector<std::string> cells;
  size_t begin = 0;
  for (size_t comma = line.find(','); comma != std::string::npos; comma = line.find(',', begin)) {
    cells.push_back(Trim(line.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  cells.push_back(Trim(line.substr(begin)));
  return cells;
}

}  // namespace

bool DataTable::Has(const std::string& column) const {
  return std::find(columns.begin(), columns.end(), column) != columns.end();
}

absl::StatusOr<size_t> DataTable::Column(const std::string& column) const {
  const auto it = std::find(columns.begin(), columns.end(), column);
  if (it != columns.end()) return static_cast<size_t>(it - columns.begin());
  std::string all;
  for (const std::string& name : columns) all += (all.empty() ? "'" : ", '") + name + "'";
  return InvalidArgument("%s has no column '%s', it has %s", file, column, all);
}

absl::StatusOr<double> DataTable::Number(const Row& row, size_t column, double min,
                                         double max) const {
  const std::string& cell = row.cells.at(column);
  char* end = nullptr;
  const double value = std::strtod(cell.c_str(), &end);
  if (cell.empty() || *end != '\0' || !std::isfinite(value)) {
    return InvalidArgument("%s:%d: column '%s' has '%s', want a number", file, row.line,
                           columns[column], cell);
  }
  if (value < min || value > max) {
    return InvalidArgument("%s:%d: column '%s' has %s, allowed are %s to %s", file, row.line,
                           columns[column], PlainNumber(value), PlainNumber(min), PlainNumber(max));
  }
  return value;
}

absl::StatusOr<DataTable> ParseDataTable(const std::string& text, const std::string& file) {
  DataTable table;
  table.file = file;
  int number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = Trim(text.substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (line.empty() || line[0] == '#') continue;
    if (line.find('"') != std::string::npos) {
      return InvalidArgument("%s:%d: quoted cells are not supported", file, number);
    }
    std::vector<std::string> cells = Split(line);
    if (table.columns.empty()) {
      table.columns = std::move(cells);
      continue;
    }
    if (cells.size() != table.columns.size()) {
      return InvalidArgument("%s:%d: %d cells, the header has %d", file, number, cells.size(),
                             table.columns.size());
    }
    if (table.rows.size() == kTableRowsMax) {
      return InvalidArgument("%s:%d: more than %d rows", file, number, kTableRowsMax);
    }
    table.rows.push_back({number, std::move(cells)});
  }
  if (table.rows.empty()) return InvalidArgument("%s: want a header line and rows", file);
  return table;
}

absl::StatusOr<DataTable> LoadDataTable(const std::string& path) {
  SKERRY_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  return ParseDataTable(text, path);
}

}  // namespace skerry
