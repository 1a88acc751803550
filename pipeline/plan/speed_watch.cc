#include "pipeline/plan/speed_watch.h"

#include <algorithm>
#include <cmath>

#include "pipeline/plan/partition.h"

namespace skerry {

bool SpeedWatch::OnBeat(int32_t stage, double busy_s, int64_t tokens, int64_t microbatch_tokens) {
  if (stage != stage_ || tokens < from_tokens_ || busy_s < from_busy_s_) {
    const bool was_slower = class_slower_ > 0;
    *this = SpeedWatch();
    stage_ = stage;
    from_busy_s_ = busy_s;
    from_tokens_ = tokens;
    return was_slower;
  }
  const int64_t more = tokens - from_tokens_;
  if (more < kWindowMicrobatches * microbatch_tokens || !(busy_s > from_busy_s_)) return false;
  const double per_token_s = (busy_s - from_busy_s_) / static_cast<double>(more);
  from_busy_s_ = busy_s;
  from_tokens_ = tokens;
  best_ = best_ == 0 ? per_token_s : std::min(best_, per_token_s);
  const auto now =
      static_cast<int32_t>(std::lround(std::log(per_token_s / best_) / std::log(kSpeedClassRatio)));
  if (now == class_slower_) {
    alike_ = 0;
    return false;
  }
  // Of windows on the same side of what counts now, the nearer class.
  const bool same_side = alike_ > 0 && (now > class_slower_) == (other_class_ > class_slower_);
  const int32_t nearer =
      now > class_slower_ ? std::min(now, other_class_) : std::max(now, other_class_);
  other_class_ = same_side ? nearer : now;
  alike_ = same_side ? alike_ + 1 : 1;
  if (alike_ < kWindowsAlike) return false;
  class_slower_ = other_class_;
  alike_ = 0;
  return true;
}

double SpeedWatch::factor() const {
  return std::pow(kSpeedClassRatio, -class_slower_);
}

}  // namespace skerry
