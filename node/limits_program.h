// Holds a running node to its volunteer's limits (volunteer_limits.h): reads the file again when it
// changes, sets the rates, counts the day's bytes over restarts, says when to rest and waits.
//
// Used on the event loop's thread while it runs, else on the program's.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "node/volunteer_limits.h"
#include "wire/event_loop.h"

namespace skerry {

inline constexpr char kLimitsFile[] = "limits.toml";
inline constexpr char kPausedFile[] = "paused";  // while it is there the node rests

// No limits if there is no file; InvalidArgument, with file and line, for a wrong one.
absl::StatusOr<VolunteerLimits> LoadLimits(const std::string& file);
absl::Status SaveLimits(const std::string& file, const VolunteerLimits& limits);

class Rationing {
 public:
  explicit Rationing(std::filesystem::path home) : home_(std::move(home)) {}

  // Of a node's bytes those that do not come by the loop, counted anew as the loop's are.
  void CountAlso(std::function<int64_t()> elsewhere) { elsewhere_ = std::move(elsewhere); }

  // Reads limits and the day's count. InvalidArgument for a wrong file.
  absl::Status Begin();
  // Returns when the node may work, or false when it was interrupted; says once why it waits and
  // until it may what would help. No event loop of the process handles signals meanwhile.
  bool WaitUntilAllowed(const std::function<void(const std::string& why)>& every_second);
  // Every second: follows the file, sets the rates, counts. Why the node has to rest now, or "". A
  // file that is wrong leaves the limits as they are, and says so.
  std::string Tick(EventLoop& loop);
  // The loop ended: counters begin anew with the next.
  void End(const EventLoop& loop);

 private:
  void Follow();
  std::string Why() const;
  void Count(const EventLoop& loop);
  void SaveCount() const;
  void WatchGpu();
  std::filesystem::path File() const { return home_ / kLimitsFile; }

  std::filesystem::path home_;
  std::function<int64_t()> elsewhere_;
  std::filesystem::file_time_type changed_;
  VolunteerLimits limits_;
  DayBudget budget_;
  GpuYield gpu_;
  double gpu_next_s_ = 0;   // when it is looked at again
  std::string gpu_unseen_;  // why it cannot be, as said last
  int ticks_ = 0;
};

}  // namespace skerry
