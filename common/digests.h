// Many digests at once (common/digest.h): of as many inputs as the processor has lanes for it costs
// little more than of one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/digest_lanes.h"
#include "common/ids.h"

namespace skerry {

// Of each of them, the same as DigestOf one by one: those of one length together. On one thread.
std::vector<Digest> DigestsOf(std::span<const std::span<const uint8_t>> inputs);
// With the lanes of one of RunnableDigestLanes.
std::vector<Digest> DigestsOf(std::span<const std::span<const uint8_t>> inputs,
                              const DigestLanesTable& table);

}  // namespace skerry
