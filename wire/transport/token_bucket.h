// How much may pass at a rate: tokens (bytes) come steadily and are spent, into debt if need be; at
// most kBurst of the rate is saved up. Pure; not thread-safe.
#pragma once

#include <algorithm>
#include <optional>

#include "common/instant.h"

namespace skerry {

class TokenBucket {
 public:
  static constexpr double kBurstS = 0.05;

  // 0: no limit.
  void SetRate(Instant now, double bytes_per_s) {
    Refill(now);
    if (rate_ == 0) tokens_ = 0;
    rate_ = bytes_per_s;
  }
  double rate() const { return rate_; }
  bool IsLimited() const { return rate_ > 0; }

  void Spend(Instant now, double bytes) {
    if (!IsLimited()) return;
    Refill(now);
    tokens_ -= bytes;
  }
  // What may be spent now without debt; meaningless without a limit.
  double Tokens(Instant now) {
    Refill(now);
    return tokens_;
  }
  bool MayGo(Instant now) { return !IsLimited() || Tokens(now) >= 0; }
  // When the debt is paid; nullopt: there is none, or no limit.
  std::optional<Instant> FreeAt() const {
    if (!IsLimited() || tokens_ >= 0) return std::nullopt;
    return at_ + Duration::Seconds(-tokens_ / rate_) + Duration::Micros(1);
  }

 private:
  void Refill(Instant now) {
    if (now <= at_) return;
    tokens_ = std::min(tokens_ + rate_ * (now - at_).seconds(), rate_ * kBurstS);
    at_ = now;
  }

  double rate_ = 0;
  double tokens_ = 0;
  Instant at_;
};

}  // namespace skerry
