// How far a command has come that takes more than two seconds: a line on standard error, where that
// is a terminal. Elsewhere nothing is written.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace skerry {

// "reading the journal  37 %, 12 s to go"; "" in the first two seconds.
std::string ShareText(const std::string& what, double share, double seconds);

// Not thread-safe.
class ShareLine {
 public:
  // `wanted`: false where only programs read, as with --json.
  explicit ShareLine(std::string what, bool wanted = true);
  ~ShareLine() { End(); }
  ShareLine(const ShareLine&) = delete;
  ShareLine& operator=(const ShareLine&) = delete;

  void Show(double share);  // in [0, 1]
  void Show(int64_t done, int64_t all);
  // Wipes it away, for what is printed next.
  void End();

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;
  bool is_seen_;
  bool is_shown_ = false;
  Clock::time_point began_, looked_;
};

}  // namespace skerry
