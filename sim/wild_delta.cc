#include "sim/wild_delta.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/check.h"
#include "compression/fixed_point.h"

namespace skerry {

Payload WildMessage(const Payload& honest, int64_t values, const Codec& codec, const WildDelta& how,
                    Rng* rng) {
  std::vector<float> delta(static_cast<size_t>(values));
  SKERRY_CHECK(codec.Decode(View(honest), delta).ok(), "a delta of our own making");
  double square = 0;
  for (const float v : delta) square += double{v} * double{v};
  const double rms = std::sqrt(square / static_cast<double>(std::max<int64_t>(values, 1)));
  Rng direction(1, "drift");
  for (float& v : delta) {
    const double wild = how.is_noise   ? how.factor * rms * rng->Normal()
                        : how.is_drift ? double{v} + how.factor * rms * direction.Normal()
                                       : how.factor * double{v};
    v = std::clamp(static_cast<float>(wild), -kMagnitudeMax, kMagnitudeMax);
  }
  Bytes bytes;
  SKERRY_CHECK(codec.Encode(delta, &bytes).ok(), "what is clamped can be encoded");
  const auto more = static_cast<int64_t>(bytes.size()) - std::ssize(View(honest));
  const int64_t size = honest.size() + more;
  return MakeHollowPayload(std::move(bytes), size);
}

}  // namespace skerry
