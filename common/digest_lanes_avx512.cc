// Compiled for AVX-512 F; see digest_lanes.h for what may stand here.
#include "common/digest_lanes.h"
#include "common/digest_lanes_body.h"

namespace skerry {

void DigestEightLanes(const uint8_t* const* inputs, size_t length, uint8_t (*digests)[32]) {
  Blake<8>::Run(inputs, length, digests);
}

}  // namespace skerry
