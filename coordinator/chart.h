// Axes of the SVG charts on Skerry's pages (coordinator/page.h): pixels are those of a viewBox
// kChartWidth wide, which the page scales to its width.
#pragma once

#include <algorithm>
#include <string>

namespace skerry {

inline constexpr double kChartWidth = 900;
inline constexpr double kChartLeft = 58;  // room for the labels of the y axis
inline constexpr double kChartRight = 14;

// A linear map from values to pixels.
struct Axis {
  double low, high;    // values
  double start, stop;  // pixels
  double At(double value) const {
    return start + (stop - start) * (value - low) / std::max(high - low, 1e-12);
  }
};

// 1, 2 or 5 times a power of ten, so that about `count` steps fill `range`.
double NiceStep(double range, int count);

// Numbers under a chart that ends at `bottom`, each followed by `unit`.
std::string XTicks(const Axis& x, double bottom, const std::string& unit);

// The same for an axis of seconds, in whichever of s, min, h or days suits its length.
std::string TimeTicks(const Axis& x, double bottom);

// Lines across the chart with their numbers to the left.
std::string YGrid(const Axis& y);

}  // namespace skerry
