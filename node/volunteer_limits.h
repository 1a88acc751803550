// What a volunteer lets a node use: rates, bytes a day, hours of the day. Kept in limits.toml in
// the node's home; join and `skerry-node limit` write it, and a running node reads it again when it
// changes:
//
//   up_mbit = 5        # 0 or absent: no limit
//   down_mbit = 20
//   daily_gb = 10      # up and down together, 10^9 bytes, from midnight to midnight
//   hours = "22-08"    # or "22:30-08:00"; absent: always
//   yield_gpu = true   # rests while another program computes on a GPU of this machine
//
// Rates are paced (Transport::SetLimits). Outside the hours, when the day's bytes are spent, or
// while others use the GPU, the node leaves the run as on Ctrl-C, waits, and joins again by itself.
// Times are local ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skerry {

// From one minute of the day (0 … 1439) to another, over midnight if that is the earlier one.
struct DailyHours {
  int32_t from_minute = 0;
  int32_t to_minute = 0;  // not included
  bool operator==(const DailyHours&) const = default;
};

struct VolunteerLimits {
  double up_mbit = 0;
  double down_mbit = 0;
  double daily_gb = 0;
  std::optional<DailyHours> hours;
  bool yields_gpu = false;
  bool operator==(const VolunteerLimits&) const = default;
};

// "22-08", "22:30-08:00". InvalidArgument for what is none, or empty.
absl::StatusOr<DailyHours> ParseHours(const std::string& text);
std::string FormatHours(const DailyHours& hours);
bool IsWithin(const DailyHours& hours, int32_t minute_of_day);

std::string Describe(const VolunteerLimits& limits);  // "up 5 Mbit/s, 22:00-08:00", "none"

// The bytes of one day, over several processes.
class DayBudget {
 public:
  // `day`: any number that changes at midnight. A counter that fell belongs to a new process.
  void Note(int64_t day, int64_t bytes_so_far);
  int64_t bytes() const { return bytes_; }
  int64_t day() const { return day_; }
  // As read from a file: the bytes of that day before this process.
  void Resume(int64_t day, int64_t bytes) { day_ = day, bytes_ = bytes, last_ = 0; }
  bool IsSpent(const VolunteerLimits& limits, int64_t day) const;

 private:
  int64_t day_ = 0, bytes_ = 0, last_ = 0;
};

// Whether a GPU is others': it is when they used it in kReadings readings in a row, and is not when
// they have not for a while. One reading a kEveryS seconds.
class GpuYield {
 public:
  static constexpr double kShare = 0.10;  // of the GPU's time: less is a desktop that is drawn
  static constexpr int kReadings = 2;
  static constexpr double kEveryS = 5, kQuietS = 120;

  // `share`: of a GPU's time that other programs took since the last reading, the most of any GPU.
  void Note(double now_s, double share);
  bool IsTaken() const { return taken_; }

 private:
  bool taken_ = false;
  int in_a_row_ = 0;
  double used_s_ = 0;  // when it was last used by others
};

// Why the node has to rest now; "" if it need not.
std::string WhyRest(const VolunteerLimits& limits, const DayBudget& budget, int64_t day,
                    int32_t minute_of_day);

}  // namespace skerry
