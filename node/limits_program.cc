#include "node/limits_program.h"

#include <unistd.h>

#include <ctime>
#include <fstream>
#include <sstream>
#include <utility>

#include "common/status.h"
#include "model/file_io.h"
#include "node/gpu_watch_program.h"
#include "node/say.h"
#include "wire/interrupt.h"
#include "wire/toml_reader.h"

namespace skerry {
namespace {

constexpr char kCountFile[] = "bytes-today.txt";  // day, bytes
constexpr double kMost = 1e6;
constexpr int kSaveEvery = 10;  // ticks

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

}  // namespace

absl::StatusOr<VolunteerLimits> LoadLimits(const std::string& file) {
  VolunteerLimits limits;
  std::ifstream in(file);
  if (!in) return limits;
  std::ostringstream text;
  text << in.rdbuf();
  SKERRY_ASSIGN_OR_RETURN(auto document, TomlDocument::Parse(text.str(), file));
  TomlTable& root = document.Root();
  limits.up_mbit = root.Number("up_mbit", 0, kMost).value_or(0);
  limits.down_mbit = root.Number("down_mbit", 0, kMost).value_or(0);
  limits.daily_gb = root.Number("daily_gb", 0, kMost).value_or(0);
  if (const auto hours = root.Text("hours"); hours && !hours->empty()) {
    const auto parsed = ParseHours(*hours);
    if (parsed.ok()) {
      limits.hours = *parsed;
    } else {
      root.Fail("hours", std::string(parsed.status().message()));
    }
  }
  limits.yields_gpu = root.Boolean("yield_gpu").value_or(false);
  SKERRY_RETURN_IF_ERROR(document.Finish());
  return limits;
}

absl::Status SaveLimits(const std::string& file, const VolunteerLimits& limits) {
  std::ostringstream out;
  out << "# What this node may use; a running node follows changes (skerry-node limit --help).\n";
  if (limits.up_mbit > 0) out << absl::StrFormat("up_mbit = %g\n", limits.up_mbit);
  if (limits.down_mbit > 0) out << absl::StrFormat("down_mbit = %g\n", limits.down_mbit);
  if (limits.daily_gb > 0) out << absl::StrFormat("daily_gb = %g\n", limits.daily_gb);
  if (limits.hours) out << "hours = \"" << FormatHours(*limits.hours) << "\"\n";
  if (limits.yields_gpu) out << "yield_gpu = true\n";
  return ReplaceText(file, out.str());
}

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

std::string Rationing::Why() const {
  std::error_code none;
  if (std::filesystem::exists(home_ / kPausedFile, none))
    return "it is paused (skerry-node resume, or the key p)";
  if (limits_.yields_gpu && gpu_.IsTaken()) {
    return "another program computes on the GPU (skerry-node limit --yield-gpu off)";
  }
  const LocalTime now = Now();
  return WhyRest(limits_, budget_, now.day, now.minute);
}

bool Rationing::WaitUntilAllowed(const std::function<void(const std::string& why)>& every_second) {
  const Bell nobody_hears;
  const InterruptWatch watch(nobody_hears);
  std::string said;
  while (!watch.Interrupted()) {
    const std::string why = Why();
    if (why.empty()) {
      if (!said.empty()) Say("the node goes back to work");
      return true;
    }
    if (why != said) Say("the node rests: " + why + "; it comes back by itself (Ctrl-C ends it)");
    said = why;
    every_second(why);
    if (!watch.Interrupted()) sleep(1);  // a signal ends it
    Follow();
    WatchGpu();
  }
  Say("ended: interrupted");
  return false;
}

void Rationing::Count(const EventLoop& loop) {
  const TransportCounters counters = loop.counters();
  const int64_t elsewhere = elsewhere_ ? elsewhere_() : 0;
  budget_.Note(Now().day, counters.bytes_sent + counters.bytes_received + elsewhere);
}

std::string Rationing::Tick(EventLoop& loop) {
  constexpr double kBytesPerMbit = 1e6 / 8;
  Follow();
  loop.SetLimits(limits_.up_mbit * kBytesPerMbit, limits_.down_mbit * kBytesPerMbit);
  Count(loop);
  WatchGpu();
  if (++ticks_ % kSaveEvery == 0) SaveCount();
  return Why();
}

// A question to the driver every few seconds, and none where nobody asked for it.
void Rationing::WatchGpu() {
  if (!limits_.yields_gpu) return;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double now_s = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  if (now_s < gpu_next_s_) return;
  gpu_next_s_ = now_s + GpuYield::kEveryS;
  const auto share = OthersGpuShare();
  if (share.ok()) return gpu_.Note(now_s, *share);
  const std::string why = ErrorText(share.status());
  if (std::exchange(gpu_unseen_, why) == why) return;
  Say("whether others use the GPU is not known: " + why);
}

void Rationing::End(const EventLoop& loop) {
  Count(loop);
  SaveCount();
  budget_.Resume(budget_.day(), budget_.bytes());
}

void Rationing::SaveCount() const {
  ReplaceText(home_ / kCountFile, absl::StrFormat("%d %d\n", budget_.day(), budget_.bytes()))
      .IgnoreError();
}

}  // namespace skerry
