#include "pipeline/plan/speed_watch.h"

#include <algorithm>
#include <cmath>

#include "pipeline/plan/partition.h"

namespace skerry {

bool SpeedWatch::OnBeat(int32_t stage, double backward_s, int64_t backwards) {
  if (stage != stage_ || backwards < from_passes_ || backward_s < from_s_) {
    const bool was_slower = class_slower_ > 0;
    *this = SpeedWatch();
    stage_ = stage;
    from_s_ = backward_s;
    from_passes_ = backwards;
    return was_slower;
  }
  const int64_t more = backwards - from_passes_;
  if (more < kWindowPasses || !(backward_s > from_s_)) return false;
  const double pass_s = (backward_s - from_s_) / static_cast<double>(more);
  from_s_ = backward_s;
  from_passes_ = backwards;
  best_ = best_ == 0 ? pass_s : std::min(best_, pass_s);
  const auto now =
      static_cast<int32_t>(std::lround(std::log(pass_s / best_) / std::log(kSpeedClassRatio)));
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
