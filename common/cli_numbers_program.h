// Checks of the command lines' numbers with a fraction.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>

#include "absl/strings/str_format.h"

namespace skerry {

// Between these, both included. CLI11's own Range lets "nan" pass, which compares with nothing.
inline CLI::Validator NumberIn(double least, double most) {
  const auto problem = [least, most](const std::string& text) -> std::string {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (end != text.c_str() && *end == '\0' && value >= least && value <= most) return "";
    return absl::StrFormat("Value %s not in range %f to %f", text, least, most);
  };
  return CLI::Validator(problem, absl::StrFormat("FLOAT in [%g - %g]", least, most));
}

}  // namespace skerry
