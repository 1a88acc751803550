// Numbers in messages, as people write them: 1000000 and not 1e+06.
#pragma once

#include <cmath>
#include <string>

#include "absl/strings/str_format.h"

namespace skerry {

inline std::string PlainNumber(double value) {
  constexpr double kLongest = 1e15;  // beyond it digits would be made up
  const bool is_whole = std::abs(value) < kLongest && value == std::trunc(value);
  return is_whole ? absl::StrFormat("%.0f", value) : absl::StrFormat("%g", value);
}

}  // namespace skerry
