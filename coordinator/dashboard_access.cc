#include "coordinator/dashboard_access.h"

#include "common/status.h"

namespace skerry {

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

absl::StatusOr<std::pair<std::string, int>> ParseWebAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string digits = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool number = !digits.empty() && digits.size() <= 5 &&
                      digits.find_first_not_of("0123456789") == std::string::npos;
  if (!number || colon == 0 || std::stoi(digits) > 65535) {
    return InvalidArgument(
        "dashboard: want host:port, as in 127.0.0.1:7780; got '%s' [SK-dashboard-address]", text);
  }
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return std::pair{host, std::stoi(digits)};
}

bool SameToken(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned char differ = 0;
  for (size_t i = 0; i < a.size(); ++i) differ |= static_cast<unsigned char>(a[i] ^ b[i]);
  return differ == 0;
}

}  // namespace skerry
