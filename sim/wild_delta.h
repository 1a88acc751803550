// A wild delta: well-formed, and wrong by as much as its sender likes. What robust means of rounds
// are for (localsgd/robust.h); a delta that is no message is refused by everybody.
#pragma once

#include <cstdint>

#include "common/bytes.h"
#include "common/rng.h"
#include "compression/codec.h"

namespace skerry {

struct WildDelta {
  double factor = 0;      // of the honest values; below 0: the wrong way; 0: the delta is honest
  bool is_noise = false;  // normal values as large together as that, instead
  // The honest values and, so many times as large together, one direction that never changes and is
  // the same of everybody who does it: what a back door is put in with.
  bool is_drift = false;
  // Of the values that another replica of its stage said last, as if they were its own.
  bool is_copy = false;
  bool operator==(const WildDelta&) const = default;
};

// What `honest`, a message of so many values, becomes. What the codec cannot say is clamped to the
// largest it can. CHECK: it is such a message.
Payload WildMessage(const Payload& honest, int64_t values, const Codec& codec, const WildDelta& how,
                    Rng* rng);

}  // namespace skerry
