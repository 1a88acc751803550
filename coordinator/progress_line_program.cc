#include "coordinator/progress_line_program.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"

namespace skerry {
namespace {

std::string DurationText(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 60) return absl::StrFormat("%d s", whole);
  if (whole < 3600) return absl::StrFormat("%d min %d s", whole / 60, whole % 60);
  return absl::StrFormat("%d h %d min", whole / 3600, whole / 60 % 60);
}

}  // namespace

std::string ProgressText(const std::string& what, const PrepareProgress& first,
                         const PrepareProgress& now, double seconds) {
  std::string text = absl::StrFormat("%s %5.1f %%  %.0f MB", what, 100 * now.share,
                                     1e-6 * static_cast<double>(now.text));
  const double rate = 1e-6 * static_cast<double>(now.text - first.text) / seconds;
  if (seconds > 1 && rate > 0) text += absl::StrFormat(", %.1f MB/s", rate);
  const double done = now.share - first.share;
  if (seconds > 2 && done > 0 && now.share < 1) {
    text += ", " + DurationText(seconds * (1 - now.share) / done) + " to go";
  }
  if (now.is_resumed) text += ", gone on with";
  return text;
}

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)), is_terminal_(isatty(STDERR_FILENO) == 1) {}

void ProgressLine::Show(const PrepareProgress& at) {
  const auto now = Clock::now();
  if (!std::exchange(has_begun_, true)) {
    begun_ = shown_ = now;
    first_ = at;
  }
  last_ = at;
  const auto pause = is_terminal_ ? std::chrono::milliseconds(250) : std::chrono::seconds(30);
  if (now - shown_ >= pause) Write(at, now);
}

void ProgressLine::Write(const PrepareProgress& at, Clock::time_point now) {
  shown_ = now;
  const std::string text =
      ProgressText(what_, first_, at, std::chrono::duration<double>(now - begun_).count());
  std::fprintf(stderr, is_terminal_ ? "\r%s\033[K" : "%s\n", text.c_str());
}

void ProgressLine::End() {
  if (!has_begun_) return;
  Write(last_, Clock::now());
  if (is_terminal_) std::fputc('\n', stderr);
}

}  // namespace skerry
