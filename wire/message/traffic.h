// Classes of traffic, in order of urgency: what a class has to send goes before all that later ones
// have, order holds within a class only (wire/courier.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/message/message.h"

namespace skerry {

enum class TrafficClass : uint8_t {
  kControl,     // everything that is not bulk
  kActivation,  // and gradients: somebody's pipeline waits for them
  kDelta,       // of outer rounds, and their sums
  kState,       // of a replica, for a joiner or the export
  kData         // token shards, and probes of links
};
inline constexpr size_t kTrafficClasses = 5;

TrafficClass ClassOf(const Message& message);

}  // namespace skerry
