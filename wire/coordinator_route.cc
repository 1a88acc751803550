#include "wire/coordinator_route.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace skerry {

CoordinatorRoute::CoordinatorRoute(std::vector<std::string> endpoints, Instant now)
    : of_ticket_(std::move(endpoints)), endpoints_(of_ticket_), quiet_since_(now) {
  SKERRY_CHECK(!endpoints_.empty(), "a coordinator is somewhere");
  current_ = endpoints_.front();
}

void CoordinatorRoute::SetEndpoints(std::vector<std::string> endpoints) {
  endpoints_ = std::move(endpoints);
  for (const std::string& one : of_ticket_) {
    if (std::find(endpoints_.begin(), endpoints_.end(), one) == endpoints_.end())
      endpoints_.push_back(one);
  }
}

std::optional<std::string> CoordinatorRoute::Next(Instant now, bool waits) {
  if (!waits) quiet_since_ = now;
  const auto due = NextDue();
  if (!due || now < *due) return std::nullopt;
  quiet_since_ = now;
  const auto at = std::find(endpoints_.begin(), endpoints_.end(), current_);
  const bool is_last = at == endpoints_.end() || at + 1 == endpoints_.end();
  current_ = is_last ? endpoints_.front() : *(at + 1);
  return current_;
}

std::optional<Instant> CoordinatorRoute::NextDue() const {
  const bool is_elsewhere = endpoints_.size() > 1 || endpoints_.front() != current_;
  return is_elsewhere ? std::optional(quiet_since_ + kPatience) : std::nullopt;
}

std::vector<std::string> SplitEndpoints(const std::string& endpoints) {
  std::vector<std::string> all;
  for (size_t at = 0; at <= endpoints.size();) {
    const size_t end = std::min(endpoints.find(',', at), endpoints.size());
    if (end > at) all.push_back(endpoints.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

}  // namespace skerry
