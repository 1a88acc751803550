// [[matrix]]: one quantity of many paths, from a CSV file.
#include <map>
#include <utility>

#include "common/status.h"
#include "sim/network_reader.h"
#include "sim/network_reader_units.h"
#include "sim/scenario_table.h"

namespace skerry {
namespace {

enum Kind : size_t {
  kRtt,
  kOneWay,
  kRateMbps,
  kRateGbps,
  kFlowCapMbps,
  kFlowCapGbps,
  kLoss,
  kJitter
};

struct KindOfMatrix {
  const char* name;
  double min, max;
};
constexpr KindOfMatrix kKinds[] = {
    {"rtt", 0, kDelayMsMax},
    {"one_way", 0, kDelayMsMax},
    {"rate_mbps", kRateMbpsMin, kRateMbpsMax},
    {"rate_gbps", kRateMbpsMin / 1000, kRateMbpsMax / 1000},
    {"flow_cap_mbps", kRateMbpsMin, kRateMbpsMax},
    {"flow_cap_gbps", kRateMbpsMin / 1000, kRateMbpsMax / 1000},
    {"loss", 0, kLossMax},
    {"jitter_ms", 0, kDelayMsMax},
};

using Cells = std::map<std::pair<int32_t, int32_t>, double>;  // (from, to)

absl::Status Put(Cells& cells, const DataTable& table, const DataTable::Row& row,
                 std::pair<int32_t, int32_t> way, double value) {
  if (cells.emplace(way, value).second) return absl::OkStatus();
  return InvalidArgument("%s:%d: this pair of regions came before", table.file, row.line);
}

// Rows (from, to, …, value, …). Rows of regions that the scenario does not have are passed over.
absl::StatusOr<Cells> CellsOfList(const NetworkReader& reader, const DataTable& table,
                                  const std::string& column, const KindOfMatrix& kind) {
  SKERRY_ASSIGN_OR_RETURN(const size_t value_column, table.Column(column));
  if (value_column < 2)
    return InvalidArgument("%s: the first two columns name the regions", table.file);
  Cells cells;
  for (const DataTable::Row& row : table.rows) {
    const auto from = reader.FindRegion(row.cells[0]), to = reader.FindRegion(row.cells[1]);
    if (!from || !to) continue;
    SKERRY_ASSIGN_OR_RETURN(const double value,
                            table.Number(row, value_column, kind.min, kind.max));
    SKERRY_RETURN_IF_ERROR(Put(cells, table, row, {*from, *to}, value));
  }
  // A row holds for the way back too, unless that has its own.
  for (const auto& [way, value] : Cells(cells))
    cells.emplace(std::pair(way.second, way.first), value);
  return cells;
}

// Header and first column name the regions.
absl::StatusOr<Cells> CellsOfSquare(const NetworkReader& reader, const DataTable& table,
                                    const KindOfMatrix& kind) {
  Cells cells;
  for (const DataTable::Row& row : table.rows) {
    const auto from = reader.FindRegion(row.cells[0]);
    for (size_t column = 1; from && column < row.cells.size(); ++column) {
      const auto to = reader.FindRegion(table.columns[column]);
      if (!to) continue;
      SKERRY_ASSIGN_OR_RETURN(const double value, table.Number(row, column, kind.min, kind.max));
      SKERRY_RETURN_IF_ERROR(Put(cells, table, row, {*from, *to}, value));
    }
  }
  return cells;
}

}  // namespace

void NetworkReader::SetByMatrix(int32_t from, int32_t to, size_t kind, double value) {
  PathSpec& path = Path(from, to);
  Given& given = GivenOf(from, to);
  switch (static_cast<Kind>(kind)) {
    case kRtt:
    case kOneWay:
      path.one_way = DurationOfMs(kind == kRtt ? value / 2 : value);
      given.delay = true;
      break;
    case kRateMbps:
    case kRateGbps:
      path.bytes_per_s = BytesPerSecond(kind == kRateGbps ? value * 1000 : value);
      given.rate = true;
      break;
    case kFlowCapMbps:
    case kFlowCapGbps:
      path.flow_bytes_per_s = BytesPerSecond(kind == kFlowCapGbps ? value * 1000 : value);
      break;
    case kLoss:
      path.loss = value;
      break;
    case kJitter:
      path.jitter = DurationOfMs(value);
      break;
  }
}

void NetworkReader::ReadMatrix(TomlTable& matrix) {
  std::vector<std::string> names;
  for (const KindOfMatrix& kind : kKinds) names.emplace_back(kind.name);
  const auto file = matrix.Text("file");
  const auto column = matrix.Text("column");
  const auto kind = matrix.Choice("kind", names);
  const bool with_diagonal = matrix.Boolean("diagonal").value_or(true);
  if (!file) matrix.Fail("file", "a matrix needs a file");
  if (!matrix.Has("kind")) {
    matrix.Fail("kind",
                "say the kind: published tables mix round trips (\"rtt\") and one way "
                "(\"one_way\")");
  }
  if (!file || !kind) return;
  const auto table = LoadDataTable(directory_ + "/" + *file);
  if (!table.ok()) return matrix.Fail("file", ErrorText(table.status()));
  const auto cells = column ? CellsOfList(*this, *table, *column, kKinds[*kind])
                            : CellsOfSquare(*this, *table, kKinds[*kind]);
  if (!cells.ok()) return matrix.Fail("file", ErrorText(cells.status()));
  if (cells->empty()) return matrix.Fail("file", *file + " has none of the regions");
  for (const auto& [way, value] : *cells) {
    if (way.first != way.second || with_diagonal) SetByMatrix(way.first, way.second, *kind, value);
  }
}

}  // namespace skerry
