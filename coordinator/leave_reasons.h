// Why nodes leave, for who reads what `serve` prints: where the same goes wrong at each, nobody
// stays, and the figures alone do not say why. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/str_format.h"

namespace skerry {

class LeaveReasons {
 public:
  static constexpr double kEveryS = 10;       // a line at most
  static constexpr size_t kReasonsMax = 100;  // remembered

  // Of an event "left" or "dead" with these members of a JSON object; "" where there is nothing to
  // say: each reason is told once. What comes too soon is told when it comes again.
  std::string Line(double now_s, const std::string& kind, const std::string& fields) {
    const auto event = nlohmann::json::parse("{" + fields + "}", nullptr, false);
    if (!event.is_object()) return "";
    std::string why = event.value("why", "");
    if (const std::string known = "it left: "; why.starts_with(known)) why.erase(0, known.size());
    if (why.empty() || now_s < next_s_ || said_.size() >= kReasonsMax) return "";
    if (!said_.insert(why).second) return "";
    next_s_ = now_s + kEveryS;
    return absl::StrFormat("node %s %s: %s", event.value("node", ""),
                           kind == "left" ? "left" : "is taken for dead", why);
  }

 private:
  std::set<std::string> said_;
  double next_s_ = 0;
};

}  // namespace skerry
