#include "common/digest_lanes.h"

namespace skerry {

const DigestLanesTable* RunnableDigestLanes() {
  static constexpr DigestLanesTable kNone = {0, nullptr};
  return &kNone;
}

}  // namespace skerry
