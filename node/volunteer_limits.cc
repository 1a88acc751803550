#include "node/volunteer_limits.h"

#include "absl/strings/str_format.h"
#include "common/status.h"

namespace skerry {
namespace {

constexpr int32_t kHour = 60, kDay = 24 * kHour;

// "8", "08", "22:30"; −1: none of these.
int32_t MinuteOf(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string hours = text.substr(0, colon);
  const std::string minutes = colon == std::string::npos ? "0" : text.substr(colon + 1);
  for (const std::string& part : {hours, minutes}) {
    if (part.empty() || part.size() > 2 ||
        part.find_first_not_of("0123456789") != std::string::npos)
      return -1;
  }
  const int32_t hour = std::stoi(hours), minute = std::stoi(minutes);
  if (minute >= kHour || hour > 24 || (hour == 24 && minute > 0)) return -1;
  return (hour * kHour + minute) % kDay;
}

}  // namespace

absl::StatusOr<DailyHours> ParseHours(const std::string& text) {
  const size_t dash = text.find('-');
  const DailyHours hours{MinuteOf(text.substr(0, dash)),
                         dash == std::string::npos ? -1 : MinuteOf(text.substr(dash + 1))};
  if (hours.from_minute < 0 || hours.to_minute < 0 || hours.from_minute == hours.to_minute)
    return InvalidArgument(
        "hours: want from-to as in 22-08 or 22:30-08:00, or always, got '%s' [SK-limit-hours]",
        text);
  return hours;
}

std::string FormatHours(const DailyHours& hours) {
  return absl::StrFormat("%02d:%02d-%02d:%02d", hours.from_minute / kHour,
                         hours.from_minute % kHour, hours.to_minute / kHour,
                         hours.to_minute % kHour);
}

bool IsWithin(const DailyHours& hours, int32_t minute) {
  if (hours.from_minute < hours.to_minute)
    return minute >= hours.from_minute && minute < hours.to_minute;
  return minute >= hours.from_minute || minute < hours.to_minute;
}

std::string Describe(const VolunteerLimits& limits) {
  std::string text;
  const auto add = [&](const std::string& one) { text += (text.empty() ? "" : ", ") + one; };
  if (limits.up_mbit > 0) add(absl::StrFormat("up %g Mbit/s", limits.up_mbit));
  if (limits.down_mbit > 0) add(absl::StrFormat("down %g Mbit/s", limits.down_mbit));
  if (limits.daily_gb > 0) add(absl::StrFormat("%g GB a day", limits.daily_gb));
  if (limits.hours) add("from " + FormatHours(*limits.hours));
  if (limits.yields_gpu) add("rests while others use the GPU");
  return text.empty() ? "none" : text;
}

void DayBudget::Note(int64_t day, int64_t bytes_so_far) {
  const int64_t more = bytes_so_far >= last_ ? bytes_so_far - last_ : bytes_so_far;
  last_ = bytes_so_far;
  if (day != day_) bytes_ = 0;
  day_ = day;
  bytes_ += more;
}

bool DayBudget::IsSpent(const VolunteerLimits& limits, int64_t day) const {
  return limits.daily_gb > 0 && day == day_ && static_cast<double>(bytes_) >= limits.daily_gb * 1e9;
}

void GpuYield::Note(double now_s, double share) {
  if (share >= kShare) {
    used_s_ = now_s;
    if (++in_a_row_ >= kReadings) taken_ = true;
    return;
  }
  in_a_row_ = 0;
  if (now_s - used_s_ >= kQuietS) taken_ = false;
}

std::string WhyRest(const VolunteerLimits& limits, const DayBudget& budget, int64_t day,
                    int32_t minute_of_day) {
  if (limits.hours && !IsWithin(*limits.hours, minute_of_day))
    return "it is outside its hours (" + FormatHours(*limits.hours) + ")";
  if (budget.IsSpent(limits, day))
    return absl::StrFormat("the day's %g GB are spent", limits.daily_gb);
  return "";
}

}  // namespace skerry
