// How many connections that have not shaken hands yet one address may hold. A connection costs a
// file and some kilobytes from the moment it is accepted; ZeroMQ tells whose it is only when the
// handshake is complete, and ends it where that takes longer than kYoungFor. So what is counted is
// every connection from when it is accepted until it has shaken hands, has ended, or is older than
// that.
//
// An address is an IPv4 address, or the /64 network of an IPv6 one, which is what one subscriber
// gets. Beyond kYoungMax of one, or `in_all` of all, a new connection is to be ended.
//
// Pure; not thread-safe. Holds an entry for each young connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "common/instant.h"

namespace skerry {

class ConnectionBudget {
 public:
  static constexpr Duration kYoungFor = Duration::Seconds(10);
  static constexpr size_t kYoungMax = 640;  // more than HandshakeBudget lets through at once

  explicit ConnectionBudget(size_t in_all) : in_all_(in_all) {}

  // The connection with this file descriptor was accepted. False: it is to be ended. Numbers come
  // again when their connections have ended, whether or not that was said.
  bool Accept(Instant now, int descriptor, const std::string& address) {
    Forget(descriptor);
    while (!young_.empty() && now - order_.front().first >= kYoungFor) Expire();
    if (young_.size() >= in_all_ || CountOf(address) >= kYoungMax) {
      ++refused_;
      return false;
    }
    young_.emplace(descriptor, Young{now, address});
    order_.emplace_back(now, descriptor);
    ++of_address_[address];
    return true;
  }

  // It has shaken hands, or is no more. Returns its address, "" if it was none of the young.
  std::string End(int descriptor) {
    const auto it = young_.find(descriptor);
    const std::string address = it == young_.end() ? "" : it->second.address;
    Forget(descriptor);
    return address;
  }

  size_t young() const { return young_.size(); }
  int64_t refused() const { return refused_; }

 private:
  struct Young {
    Instant since;
    std::string address;
  };

  size_t CountOf(const std::string& address) const {
    const auto it = of_address_.find(address);
    return it == of_address_.end() ? 0 : it->second;
  }

  void Expire() {
    const auto [since, descriptor] = order_.front();
    order_.pop_front();
    const auto it = young_.find(descriptor);
    if (it != young_.end() && it->second.since == since) Forget(descriptor);
  }

  void Forget(int descriptor) {
    const auto it = young_.find(descriptor);
    if (it == young_.end()) return;
    const auto count = of_address_.find(it->second.address);
    if (--count->second == 0) of_address_.erase(count);
    young_.erase(it);
  }

  size_t in_all_;
  std::map<int, Young> young_;                 // by descriptor
  std::deque<std::pair<Instant, int>> order_;  // oldest first; some have ended since
  std::map<std::string, size_t> of_address_;   // how many of young_
  int64_t refused_ = 0;
};

}  // namespace skerry
