// The clock of one simulated process: it may run fast or slow and may be set. Timers and now() of
// the process follow it.
#pragma once

#include <cmath>

#include "common/instant.h"

namespace skerry {

class SimulatedClock {
 public:
  // What the process reads at true time `now`.
  Instant Read(Instant now) const {
    return local_ + (rate_ == 1 ? now - set_at_ : Scaled(now - set_at_, rate_));
  }
  // When the process will read `reading`, as far as its rate goes on.
  Instant When(Instant reading) const {
    return set_at_ + (rate_ == 1 ? reading - local_ : Scaled(reading - local_, 1 / rate_));
  }

  // `rate` > 0: local seconds per true second.
  void SetRate(Instant now, double rate) {
    local_ = Read(now);
    set_at_ = now;
    rate_ = rate;
  }
  void Jump(Instant now, Duration by) {
    local_ = Read(now) + by;
    set_at_ = now;
  }

 private:
  // Rounded up, so that a timer never fires before its reading.
  static Duration Scaled(Duration span, double factor) {
    return Duration::Nanos(
        static_cast<int64_t>(std::ceil(static_cast<double>(span.nanos()) * factor)));
  }

  Instant set_at_, local_;
  double rate_ = 1;
};

}  // namespace skerry
