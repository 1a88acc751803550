// What the longer benchmarks share.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "common/status.h"

namespace skerry::bench {

// Ends the program with the reason if the status is not OK.
inline void MustBeOk(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "bench: %s\n", ErrorText(status).c_str());
  std::exit(2);
}

// Of at least one value; between two of them, in proportion.
inline double QuantileOf(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

inline double Median(std::vector<double> values) {
  return QuantileOf(std::move(values), 0.5);
}

}  // namespace skerry::bench
