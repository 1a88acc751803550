// What an error says before its code (common/error_pages.h).
#pragma once

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace skerry {

// "steps: wrong [SK-config]" → "steps: wrong"; a text without a code stays.
inline std::string WithoutCode(absl::string_view text) {
  const size_t at = text.rfind(" [SK-");
  const bool has_code = at != absl::string_view::npos && absl::EndsWith(text, "]");
  return std::string(has_code ? text.substr(0, at) : text);
}

}  // namespace skerry
