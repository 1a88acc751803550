#include "coordinator/nodes_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/terminal.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

std::string GibText(const Json& bytes) {
  return bytes.is_null() ? "-" : absl::StrFormat("%.2f", bytes.get<double>() / (1 << 30));
}

// What was not measured is not 0.
std::string RateText(const Json& gflops) {
  const double rate = gflops.get<double>();
  return rate > 0 ? absl::StrFormat("%.1f", rate) : "-";
}

// "24.0", of GPUs and what their host has besides "24.0+62.5".
std::string OfferedText(const Json& node) {
  const Json& host = node["host_memory_bytes"];
  return GibText(node["memory_bytes"]) + (host == 0 ? "" : "+" + GibText(host));
}

// "1.0", of cohort 2 "1.0 c2".
std::string SlotText(const Json& node) {
  if (!node["takes_part"].get<bool>()) return "-";
  const int cohort = node.value("cohort", -1);
  return absl::StrFormat("%d.%d", node["stage"].get<int>(), node["replica"].get<int>()) +
         (cohort < 0 ? "" : absl::StrFormat(" c%d", cohort));
}

std::string SizesText(const Json& node) {
  const std::string is = node["sizes"];
  return is.empty() ? "-" : is;
}

std::string ReachableText(const Json& node) {
  return node["reachable"].get<std::string>() + (node["relays"].get<bool>() ? ", relay" : "");
}

struct Fact {
  const char* name;
  bool is_number;
  int needless;  // the highest goes first where there is no room; 0: stays
  std::string (*text)(const Json& node);
};
constexpr Fact kFacts[] = {
    {"node", false, 0, [](const Json& node) { return node["id"].get<std::string>().substr(0, 8); }},
    {"region", false, 1, [](const Json& node) { return node["region"].get<std::string>(); }},
    {"slot", false, 0, SlotText},
    {"is", false, 0, [](const Json& node) { return node["is"].get<std::string>(); }},
    {"reachable", false, 2, ReachableText},
    {"GFLOP/s", true, 4,
     [](const Json& node) { return absl::StrFormat("%.1f", node["gflops"].get<double>()); }},
    {"in bf16", true, 9, [](const Json& node) { return RateText(node["bf16_gflops"]); }},
    {"GiB", true, 3, OfferedText},
    {"model", true, 6, [](const Json& node) { return GibText(node["memory_model_bytes"]); }},
    {"measured", true, 7, [](const Json& node) { return GibText(node["memory_held_bytes"]); }},
    {"screened", true, 10,
     [](const Json& node) { return std::to_string(node["rounds_screened"].get<int64_t>()); }},
    {"sizes", false, 8, SizesText},
    {"device", false, 5, [](const Json& node) { return node["device"].get<std::string>(); }},
};
constexpr size_t kDevice = std::size(kFacts) - 1;
constexpr int kGap = 2;

struct Column {
  std::vector<std::string> cells;  // its name, and then what is said of each node
  int width = 0;
  bool is_shown = true;
};

std::vector<Column> ColumnsFor(const Json& nodes) {
  std::vector<Column> columns;
  for (const Fact& fact : kFacts) {
    Column column = {{fact.name}};
    for (const Json& node : nodes) column.cells.push_back(fact.text(node));
    for (const std::string& cell : column.cells)
      column.width = std::max(column.width, ColumnsOf(cell));
    columns.push_back(std::move(column));
  }
  return columns;
}

// Returns the names of what there is no room for. The long name of a device is rather cut.
std::string FitTo(int width, std::vector<Column>* columns) {
  constexpr int kDeviceMin = 12;
  std::string left_out;
  (*columns)[kDevice].width = std::min((*columns)[kDevice].width, kDeviceMin);
  int needed = -kGap;
  for (const Column& column : *columns) needed += column.width + kGap;
  while (needed > width) {
    size_t worst = 0;
    for (size_t i = 0; i < columns->size(); ++i) {
      if ((*columns)[i].is_shown && kFacts[i].needless > kFacts[worst].needless) worst = i;
    }
    if (worst == 0) break;
    (*columns)[worst].is_shown = false;
    needed -= (*columns)[worst].width + kGap;
    left_out += std::string(left_out.empty() ? "" : ", ") + kFacts[worst].name;
  }
  (*columns)[kDevice].width += std::max(width - needed, 0);
  return left_out;
}

std::string Line(const std::vector<Column>& columns, size_t row) {
  std::string line;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (!columns[i].is_shown) continue;
    const std::string cell = CutTo(columns[i].cells[row], columns[i].width);
    const auto missing = static_cast<size_t>(columns[i].width - ColumnsOf(cell));
    const std::string fill(missing, ' '), gap(line.empty() ? 0 : kGap, ' ');
    line += gap + (kFacts[i].is_number ? fill + cell : cell + fill);
  }
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

}  // namespace

std::string NodesTable(const Json& nodes, int columns) {
  std::vector<Column> facts = ColumnsFor(nodes);
  const std::string left_out = columns > 0 ? FitTo(columns, &facts) : "";
  std::string text;
  for (size_t row = 0; row <= nodes.size(); ++row) text += Line(facts, row);
  if (left_out.empty()) return text;
  for (const std::string& line :
       WrappedTo("no room for " + left_out + "; all: | cat, or --json", columns)) {
    text += line + "\n";
  }
  return text;
}

}  // namespace skerry
