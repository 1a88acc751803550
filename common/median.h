// The middle of some values; 0 of none.
#pragma once

#include <algorithm>
#include <vector>

namespace skerry {

// Of two in the middle the larger: a value that was there.
inline double UpperMedian(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Of two in the middle their mean.
inline double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

}  // namespace skerry
