// A way between two real processes on which things go wrong: a TCP proxy on a thread of its own.
// What goes wrong is tied to bytes carried or to calls, never to the clock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/rng.h"

namespace skerry {

class WildPath {
 public:
  // Leads to `target`, "tcp://127.0.0.1:PORT".
  explicit WildPath(const std::string& target);
  ~WildPath();

  std::string endpoint() const { return "tcp://127.0.0.1:" + std::to_string(port_); }

  // From now on one connection, drawn from `seed`, is broken each time so many more bytes have
  // passed; 0: none.
  void BreakEvery(int64_t bytes, uint64_t seed);
  // After so many bytes breaks all connections, takes no more, and calls `then` on its own thread.
  void CloseAfter(int64_t bytes, std::function<void()> then);
  // Breaks all connections; new ones are taken.
  void BreakAll();
  // Bytes in this direction stop where they are; connections stand.
  void Hold(bool to_target, bool from_target);
  // To the target, of the oldest connection alone.
  void HoldOldest(bool holds);
  // Of both directions together; 0: as fast as it goes.
  void SetRate(double bytes_per_s);

  int64_t carried() const;
  int64_t carried_most() const;            // by one connection
  int64_t carried_back_by_oldest() const;  // of the connections that stand
  int64_t broken() const;

 private:
  struct Connection;
  void Run();
  void Accept();
  bool Holds(const Connection& connection, bool to_target) const;
  bool Carry(Connection& connection, bool to_target);
  void BreakOne();

  const int target_port_;
  int listener_ = -1;
  int port_ = 0;
  int bell_[2] = {-1, -1};
  std::vector<std::unique_ptr<Connection>> connections_;

  mutable std::mutex mutex_;
  bool ends_ = false, closed_ = false;
  bool holds_[2] = {false, false};  // from the target, to it
  bool holds_oldest_ = false;
  double bytes_per_s_ = 0, allowance_ = 0;
  int64_t break_every_ = 0, next_break_ = 0;
  int64_t close_after_ = 0;
  std::function<void()> when_closed_;
  int64_t carried_ = 0, carried_most_ = 0, broken_ = 0;
  Rng rng_{1};
  std::thread thread_;
};

}  // namespace skerry
