// How often strangers of one address may shake hands. CURVE costs the server two scalar
// multiplications a handshake, and each new key is remembered for a while: so an address has a
// bucket of kBurst handshakes that fills by kPerSecond. Keys that are known are let in whatever it
// holds.
//
// ZeroMQ says who shakes hands only when the client's last command is there (ZAP). What comes
// before is bounded by the sizes of commands, ZMQ_HANDSHAKE_IVL, and connection_budget.h. A
// handshake is charged when it is complete: a connection may end after it was asked about, and what
// was ended for its address's sake would cost the address twice. Until then connection_budget.h
// bounds how many are under way, and so the debt.
//
// Addresses beyond kAddressesMax share one bucket. Pure; not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "common/instant.h"

namespace skerry {

class HandshakeBudget {
 public:
  static constexpr double kBurst = 600;  // a storm of joiners behind one address, thrice over
  static constexpr double kPerSecond = 4;
  static constexpr size_t kAddressesMax = 4096;

  // Whether one more is allowed now.
  bool Allows(Instant now, const std::string& address) {
    return BucketOf(now, address).TokensAt(now) >= 1;
  }
  // One is complete.
  void Charge(Instant now, const std::string& address) {
    Bucket& bucket = BucketOf(now, address);
    bucket.Fill(now);
    bucket.tokens -= 1;
  }
  size_t addresses() const { return buckets_.size(); }

 private:
  struct Bucket {
    Instant at;
    double tokens = kBurst;
    double TokensAt(Instant now) const {
      return now <= at ? tokens : std::min(kBurst, tokens + kPerSecond * (now - at).seconds());
    }
    void Fill(Instant now) {
      tokens = TokensAt(now);
      at = std::max(at, now);
    }
  };

  Bucket& BucketOf(Instant now, const std::string& address) {
    const auto known = buckets_.find(address);
    if (known != buckets_.end()) return known->second;
    if (buckets_.size() >= kAddressesMax) {
      std::erase_if(buckets_,
                    [now](const auto& entry) { return entry.second.TokensAt(now) >= kBurst; });
    }
    if (buckets_.size() >= kAddressesMax) return shared_;
    return buckets_.emplace(address, Bucket{now}).first->second;
  }

  std::map<std::string, Bucket> buckets_;
  Bucket shared_;
};

}  // namespace skerry
