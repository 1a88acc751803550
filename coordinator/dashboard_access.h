// Who may look at a dashboard: addresses and tokens. Pure.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace skerry {

bool IsLoopback(const std::string& host);

// "127.0.0.1:7780", "[::1]:7780" → host and port. Else InvalidArgument.
absl::StatusOr<std::pair<std::string, int>> ParseWebAddress(const std::string& text);

// Equal or not takes the same time, wherever they differ.
bool SameToken(const std::string& a, const std::string& b);

}  // namespace skerry
