// Reads published churn traces (sim/churn.h).
#include <map>
#include <set>

#include "common/status.h"
#include "sim/churn.h"
#include "sim/scenario_table.h"

namespace skerry {

absl::StatusOr<std::vector<TraceEvent>> LoadChurnTrace(const std::string& path) {
  constexpr double kMillisecondsMax = 1e12;
  SKERRY_ASSIGN_OR_RETURN(const DataTable table, LoadDataTable(path));
  SKERRY_ASSIGN_OR_RETURN(const size_t at, table.Column("t_ms"));
  SKERRY_ASSIGN_OR_RETURN(const size_t what, table.Column("event"));
  SKERRY_ASSIGN_OR_RETURN(const size_t who, table.Column("node"));
  std::vector<TraceEvent> trace;
  std::map<std::string, int32_t> number;
  std::set<int32_t> there;
  for (const DataTable::Row& row : table.rows) {
    const auto refuse = [&](const std::string& why) {
      return InvalidArgument("%s:%d: %s", table.file, row.line, why);
    };
    SKERRY_ASSIGN_OR_RETURN(const double ms, table.Number(row, at, 0, kMillisecondsMax));
    const std::string& event = row.cells[what];
    if (event != "add" && event != "remove")
      return refuse("event is '" + event + "', allowed are 'add', 'remove'");
    const bool up = event == "add";
    const auto machine =
        number.emplace(row.cells[who], static_cast<int32_t>(number.size())).first->second;
    if (up == there.contains(machine)) {
      return refuse("'" + row.cells[who] + "' is " + (up ? "there already" : "not there"));
    }
    if (up) {
      there.insert(machine);
    } else {
      there.erase(machine);
    }
    const Instant when = Instant() + Duration::Micros(static_cast<int64_t>(ms * 1000));
    if (!trace.empty() && when < trace.back().at) return refuse("t_ms must not fall");
    trace.push_back({when, machine, up});
  }
  return trace;
}

}  // namespace skerry
