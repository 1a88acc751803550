#include "node/rationing.h"

#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <fstream>

#include "common/status.h"

namespace skerry {
namespace {

constexpr char kCountFile[] = "bytes-today.txt";  // day, bytes
constexpr int kSaveEvery = 10;                    // ticks

struct LocalTime {
  int64_t day = 0;
  int32_t minute = 0;
};
LocalTime Now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  return {int64_t{1000} * parts.tm_year + parts.tm_yday, 60 * parts.tm_hour + parts.tm_min};
}

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace

absl::Status Rationing::Begin() {
  SKERRY_ASSIGN_OR_RETURN(limits_, LoadLimits(File().string()));
  std::error_code none;
  changed_ = std::filesystem::last_write_time(File(), none);
  std::ifstream count(home_ / kCountFile);
  int64_t day = 0, bytes = 0;
  if (count >> day >> bytes && day == Now().day && bytes > 0) budget_.Resume(day, bytes);
  if (limits_ != VolunteerLimits()) Say("limits: " + Describe(limits_));
  return absl::OkStatus();
}

void Rationing::Follow() {
  std::error_code none;
  const auto changed = std::filesystem::last_write_time(File(), none);
  if (changed == changed_) return;
  changed_ = changed;
  const auto limits = LoadLimits(File().string());
  if (limits.ok()) {
    limits_ = *limits;
    Say("limits are now: " + Describe(limits_));
  } else {
    Say("limits stay as they were: " + ErrorText(limits.status()));
  }
}

absl::Status Rationing::WaitUntilAllowed() {
  std::string said;
  while (true) {
    const LocalTime now = Now();
    const std::string why = WhyRest(limits_, budget_, now.day, now.minute);
    if (why.empty()) {
      if (!said.empty()) Say("the node goes back to work");
      return absl::OkStatus();
    }
    if (why != said) Say("the node rests: " + why + "; it comes back by itself (Ctrl-C ends it)");
    said = why;
    sleep(1);
    Follow();
  }
}

void Rationing::Count(const EventLoop& loop) {
  const TransportCounters counters = loop.counters();
  budget_.Note(Now().day, counters.bytes_sent + counters.bytes_received);
}

std::string Rationing::Tick(EventLoop& loop) {
  constexpr double kBytesPerMbit = 1e6 / 8;
  Follow();
  loop.SetLimits(limits_.up_mbit * kBytesPerMbit, limits_.down_mbit * kBytesPerMbit);
  Count(loop);
  if (++ticks_ % kSaveEvery == 0) SaveCount();
  const LocalTime now = Now();
  return WhyRest(limits_, budget_, now.day, now.minute);
}

void Rationing::End(const EventLoop& loop) {
  Count(loop);
  SaveCount();
  budget_.Resume(budget_.day(), budget_.bytes());
}

void Rationing::SaveCount() const {
  std::ofstream(home_ / kCountFile, std::ios::trunc)
      << budget_.day() << ' ' << budget_.bytes() << '\n';
}

}  // namespace skerry
