#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/status.h"
#include "coordinator/chart.h"
#include "coordinator/page.h"
#include "sim/compare.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

constexpr char kStyle[] = R"(
.row { fill: var(--text); font-size: 13px; }
.seed { fill: var(--train); opacity: .45; }
.median { stroke: var(--valid); stroke-width: 3; }
.range { stroke: var(--train); stroke-width: 2; opacity: .5; }
.base { stroke: var(--ref); stroke-dasharray: 4 4; }
.figures { font-size: 13.5px; }
.figures td, .figures th { padding: 6px 8px; white-space: nowrap; text-align: right; }
.figures td:first-child, .figures th:first-child { text-align: left; white-space: normal;
  min-width: 150px; line-height: 1.35; }
svg.wide { min-width: 560px; }
)";

std::string Digits(double value, const CompareFigure& figure) {
  return absl::StrFormat("%.*f", figure.decimals, value * figure.scale);
}

std::string Percent(double share) {
  return absl::StrFormat("%+.1f %%", 100 * share);
}

// Bytes between regions only where there are some.
bool IsShown(const Comparison& comparison, const CompareFigure& figure) {
  if (figure.value != &CompareCell::wide_bytes_per_token)
    return comparison.real_math || !figure.only_real_math;
  return std::any_of(
      comparison.strategies.begin(), comparison.strategies.end(),
      [&](const StrategyCells& strategy) { return SpreadOf(strategy, figure).high > 0; });
}

bool AllWell(const StrategyCells& strategy) {
  return std::all_of(strategy.cells.begin(), strategy.cells.end(),
                     [](const CompareCell& cell) { return cell.wrong.empty(); });
}

std::string SpreadText(const Spread& spread, const CompareFigure& figure) {
  const std::string low = Digits(spread.low, figure), high = Digits(spread.high, figure);
  const std::string median = Digits(spread.median, figure);
  return low == high ? median : median + " (" + low + "–" + high + ")";
}

std::string ChangeText(const Spread& change) {
  if (change.low == change.high) return Percent(change.median);
  return absl::StrFormat("%+.1f %% (%+.1f…%+.1f)", 100 * change.median, 100 * change.low,
                         100 * change.high);
}

// Columns as wide as their widest cell; bytes of UTF-8 that continue a character have no width.
size_t Width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::vector<std::vector<std::string>> Cells(const Comparison& comparison) {
  std::vector<std::vector<std::string>> rows(1, {"strategy"});
  for (const CompareFigure& figure : kCompareFigures) {
    if (!IsShown(comparison, figure)) continue;
    rows[0].push_back(figure.title);
    if (figure.value == &CompareCell::tokens_per_s || figure.value == &CompareCell::loss)
      rows[0].push_back("to the first");
  }
  for (const StrategyCells& strategy : comparison.strategies) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(strategy.strategy.name + (AllWell(strategy) ? "" : " !"));
    for (const CompareFigure& figure : kCompareFigures) {
      if (!IsShown(comparison, figure)) continue;
      row.push_back(SpreadText(SpreadOf(strategy, figure), figure));
      if (figure.value == &CompareCell::tokens_per_s || figure.value == &CompareCell::loss)
        row.push_back(ChangeText(ChangeOf(strategy, comparison.strategies.front(), figure)));
    }
  }
  return rows;
}

std::string Wrongs(const Comparison& comparison, const std::string& begin, const std::string& end) {
  std::string text;
  for (const StrategyCells& strategy : comparison.strategies) {
    for (const CompareCell& cell : strategy.cells) {
      if (cell.wrong.empty()) continue;
      text += begin +
              EscapeHtml(absl::StrFormat("%s, seed %d: %s", strategy.strategy.name, cell.seed,
                                         cell.wrong)) +
              end;
    }
  }
  return text;
}

// A row a strategy, a dot a seed, the median across; the first strategy's median all the way down.
std::string Chart(const Comparison& comparison, const CompareFigure& figure) {
  constexpr double kRow = 26, kNames = 130, kNumbers = 90;
  Axis x{INFINITY, -INFINITY, kNames, kChartWidth - kNumbers};
  for (const StrategyCells& strategy : comparison.strategies) {
    const Spread spread = SpreadOf(strategy, figure);
    x.low = std::min(x.low, spread.low * figure.scale);
    x.high = std::max(x.high, spread.high * figure.scale);
  }
  const double air = std::max((x.high - x.low) * 0.06, std::abs(x.high) * 1e-3);
  // Near zero the whole axis is more honest than a part of it.
  if (x.low >= 0) {
    x.low = x.low < 0.6 * x.high ? 0 : std::max(x.low - air, 0.0);
  } else {
    x.low -= air;
  }
  x.high += air;
  const double bottom = 4 + kRow * static_cast<double>(comparison.strategies.size());
  std::string svg = absl::StrFormat(
      "<div class=\"scroll\"><svg class=\"wide\" viewBox=\"0 0 %g %g\" role=\"img\" "
      "aria-label=\"%s of every strategy\">",
      kChartWidth, bottom + 26, figure.title);
  const double base = x.At(SpreadOf(comparison.strategies.front(), figure).median * figure.scale);
  svg += absl::StrFormat("<line class=\"base\" x1=\"%.1f\" x2=\"%.1f\" y1=\"2\" y2=\"%g\"/>", base,
                         base, bottom);
  for (size_t i = 0; i < comparison.strategies.size(); ++i) {
    const StrategyCells& strategy = comparison.strategies[i];
    const double middle = 4 + kRow * (static_cast<double>(i) + 0.5);
    const Spread spread = SpreadOf(strategy, figure);
    svg += absl::StrFormat(
        "<text class=\"row\" x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%s</text>"
        "<line class=\"grid\" x1=\"%g\" x2=\"%g\" y1=\"%.1f\" y2=\"%.1f\"/>"
        "<line class=\"range\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>",
        kNames - 10, middle + 4, EscapeHtml(strategy.strategy.name), x.start, x.stop, middle,
        middle, x.At(spread.low * figure.scale), x.At(spread.high * figure.scale), middle, middle);
    for (const CompareCell& cell : strategy.cells) {
      if (!cell.wrong.empty()) continue;
      svg += absl::StrFormat(
          "<circle class=\"seed\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"><title>seed %d: %s</title>"
          "</circle>",
          x.At(cell.*figure.value * figure.scale), middle, cell.seed,
          Digits(cell.*figure.value, figure));
    }
    const double at = x.At(spread.median * figure.scale);
    svg += absl::StrFormat(
        "<line class=\"median\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
        "<text class=\"tick\" x=\"%g\" y=\"%.1f\">%s</text>",
        at, at, middle - 8, middle + 8, x.stop + 10, middle + 4, Digits(spread.median, figure));
  }
  return svg + XTicks(x, bottom, "") + "</svg></div>";
}

// The spread on a line of its own.
std::string Cell(const std::string& text) {
  const size_t spread = text.find(" (");
  if (spread == std::string::npos) return EscapeHtml(text);
  return EscapeHtml(text.substr(0, spread)) + "<br><span class=\"muted\">" +
         EscapeHtml(text.substr(spread + 1)) + "</span>";
}

std::string HtmlTable(const Comparison& comparison) {
  const auto rows = Cells(comparison);
  std::string html = "<div class=\"scroll\"><table class=\"figures\"><thead><tr>";
  for (const std::string& title : rows[0]) html += "<th>" + title + "</th>";
  html += "</tr></thead><tbody>";
  for (size_t r = 1; r < rows.size(); ++r) {
    html += "<tr><td>" + EscapeHtml(rows[r][0]) + "<br><span class=\"muted\">" +
            EscapeHtml(comparison.strategies[r - 1].strategy.about) + "</span></td>";
    for (size_t c = 1; c < rows[r].size(); ++c) html += "<td>" + Cell(rows[r][c]) + "</td>";
    html += "</tr>";
  }
  return html + "</tbody></table></div>";
}

}  // namespace

std::string CompareTable(const Comparison& comparison) {
  const auto rows = Cells(comparison);
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], Width(row[c]));
  std::string text;
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string gap(widths[c] - Width(row[c]), ' ');
      text += c == 0 ? row[c] + gap : "  " + gap + row[c];
    }
    text += "\n";
  }
  for (const StrategyCells& strategy : comparison.strategies) {
    for (const CompareCell& cell : strategy.cells) {
      if (cell.wrong.empty()) continue;
      text += absl::StrFormat("! %s, seed %d: %s\n", strategy.strategy.name, cell.seed, cell.wrong);
    }
  }
  return text;
}

std::string CompareJson(const Comparison& comparison) {
  Json strategies = Json::array();
  for (const StrategyCells& strategy : comparison.strategies) {
    Json one = {{"name", strategy.strategy.name},
                {"about", strategy.strategy.about},
                {"changes", strategy.strategy.changes}};
    for (const CompareFigure& figure : kCompareFigures) {
      if (!IsShown(comparison, figure)) continue;
      const Spread value = SpreadOf(strategy, figure);
      const Spread change = ChangeOf(strategy, comparison.strategies.front(), figure);
      one["figures"][figure.key] = {{"median", value.median},   {"min", value.low},
                                    {"max", value.high},        {"change", change.median},
                                    {"change_min", change.low}, {"change_max", change.high}};
    }
    for (const CompareCell& cell : strategy.cells) {
      Json seed = {{"seed", cell.seed},
                   {"trace_hash", absl::StrFormat("%016x", cell.trace_hash)},
                   {"wrong", cell.wrong}};
      for (const CompareFigure& figure : kCompareFigures)
        if (IsShown(comparison, figure)) seed[figure.key] = cell.*figure.value;
      one["seeds"].push_back(seed);
    }
    strategies.push_back(std::move(one));
  }
  const Json out = {{"scenario", comparison.scenario},
                    {"real_math", comparison.real_math},
                    {"strategies", std::move(strategies)}};
  return out.dump(2) + "\n";
}

std::string CompareHtml(const Comparison& comparison) {
  const auto seeds = comparison.strategies.front().cells.size();
  std::string body =
      "<h1>" + EscapeHtml(comparison.scenario) + ": strategies side by side</h1>" +
      absl::StrFormat(
          "<p class=\"muted\">%d strategies on the same %d seed%s, on "
          "virtual time · %s</p>",
          comparison.strategies.size(), seeds, seeds == 1 ? "" : "s",
          comparison.real_math ? "a tiny model, really trained, at the scenario's times"
                               : "arithmetic is modelled: no losses");
  const std::string wrong = Wrongs(comparison, "<p class=\"bad\">", "</p>");
  body += Section("What went wrong", "left out of the figures", wrong);
  body +=
      Section("Table", "median (least–most); changes are of equal seeds", HtmlTable(comparison));
  for (const CompareFigure& figure : kCompareFigures) {
    if (!IsShown(comparison, figure)) continue;
    body += Section(figure.title, "a dot a seed, the median across; dashed: the first strategy",
                    Chart(comparison, figure));
  }
  return HtmlPage(comparison.scenario + ": strategies", body, kStyle);
}

}  // namespace skerry
