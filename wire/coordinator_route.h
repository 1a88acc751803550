// Where a node's coordinator is: one of several addresses, of which one at a time answers. Who
// stands by at the others is silent until it leads.
//
// When the coordinator has not been heard for kPatience although something waits for its answer,
// the next address is tried, round and round. Pure: no sockets, no clock.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/instant.h"

namespace skerry {

class CoordinatorRoute {
 public:
  static constexpr Duration kPatience = Duration::Seconds(3);

  // `endpoints`: what the ticket says, at least one; the first is dialled.
  CoordinatorRoute(std::vector<std::string> endpoints, Instant now);

  // What the coordinator says itself: tried before those of the ticket. The present address stays
  // in use until it is silent, listed or not.
  void SetEndpoints(std::vector<std::string> endpoints);
  const std::string& current() const { return current_; }

  // A frame of the coordinator came.
  void OnHeard(Instant now) { quiet_since_ = now; }
  // What to dial now instead; nullopt: nothing. `waits`: something is unacknowledged.
  std::optional<std::string> Next(Instant now, bool waits);
  // When to ask Next again; nullopt: there is nowhere else.
  std::optional<Instant> NextDue() const;

 private:
  std::vector<std::string> of_ticket_;
  std::vector<std::string> endpoints_;
  std::string current_;
  Instant quiet_since_;
};

// "tcp://a:1,tcp://b:2": as tickets name several.
std::vector<std::string> SplitEndpoints(const std::string& endpoints);

}  // namespace skerry
