#include "tests/fuzz/targets.h"

namespace skerry {

std::vector<FuzzTarget> FuzzTargets() {
  std::vector<FuzzTarget> all = WireTargets();
  for (const auto& more : {FileTargets(), ModelTargets(), CodecTargets()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace skerry
