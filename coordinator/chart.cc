#include "coordinator/chart.h"

#include <cmath>

#include "common/status.h"

namespace skerry {

double NiceStep(double range, int count) {
  const double rough = std::max(range, 1e-9) / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power) return factor * power;
  }
  return 10 * power;
}

std::string XTicks(const Axis& x, double bottom, const std::string& unit) {
  std::string svg;
  const double step = NiceStep(x.high - x.low, 9);
  for (double k = std::ceil(x.low / step); k * step <= x.high + step * 1e-6; ++k) {
    const double v = k * step + 0.0;  // no −0
    svg += absl::StrFormat(
        "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g%s</text>", x.At(v),
        bottom + 18, v, unit);
  }
  return svg;
}

std::string TimeTicks(const Axis& x, double bottom) {
  struct Unit {
    double seconds;
    const char* name;
    double until_s;  // what range
  };
  constexpr Unit kUnits[] = {{1, " s", 600}, {60, " min", 4 * 3600}, {3600, " h", 4 * 86400}};
  Unit unit{86400, " d", 0};
  for (const Unit& other : kUnits) {
    if (x.high - x.low < other.until_s) {
      unit = other;
      break;
    }
  }
  return XTicks({x.low / unit.seconds, x.high / unit.seconds, x.start, x.stop}, bottom, unit.name);
}

std::string YGrid(const Axis& y) {
  std::string svg;
  const double step = NiceStep(y.high - y.low, 6);
  for (double k = std::ceil(y.low / step); k * step <= y.high + step * 1e-6; ++k) {
    const double v = k * step + 0.0;
    svg += absl::StrFormat(
        "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
        "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%g</text>",
        kChartLeft, kChartWidth - kChartRight, y.At(v), y.At(v), kChartLeft - 8, y.At(v) + 4, v);
  }
  return svg;
}

}  // namespace skerry
