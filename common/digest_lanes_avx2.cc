// Compiled for AVX2; see digest_lanes.h for what may stand here.
#include "common/digest_lanes.h"
#include "common/digest_lanes_body.h"

namespace skerry {

void DigestFourLanes(const uint8_t* const* inputs, size_t length, uint8_t (*digests)[32]) {
  Blake<4>::Run(inputs, length, digests);
}

}  // namespace skerry
