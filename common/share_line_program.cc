#include "common/share_line_program.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"

namespace skerry {

std::string ShareText(const std::string& what, double share, double seconds) {
  constexpr double kShort = 2;
  if (seconds < kShort) return "";
  std::string text = absl::StrFormat("%s %3.0f %%", what, 100 * std::clamp(share, 0.0, 1.0));
  if (share <= 0 || share >= 1) return text;
  const auto left = static_cast<int64_t>(seconds * (1 - share) / share);
  if (left < 60) return text + absl::StrFormat(", %d s to go", left);
  if (left < 3600) return text + absl::StrFormat(", %d min %d s to go", left / 60, left % 60);
  return text + absl::StrFormat(", %d h %d min to go", left / 3600, left / 60 % 60);
}

ShareLine::ShareLine(std::string what, bool wanted)
    : what_(std::move(what)),
      is_seen_(wanted && isatty(STDERR_FILENO) == 1),
      began_(Clock::now()),
      looked_(began_) {}

void ShareLine::End() {
  if (std::exchange(is_shown_, false)) std::fputs("\r\033[K", stderr);
}

void ShareLine::Show(double share) {
  if (!is_seen_) return;
  constexpr auto kPause = std::chrono::milliseconds(250);
  const auto now = Clock::now();
  if (now - looked_ < kPause) return;
  looked_ = now;
  const std::string text =
      ShareText(what_, share, std::chrono::duration<double>(now - began_).count());
  if (text.empty()) return;
  std::fprintf(stderr, "\r%s\033[K", text.c_str());
  is_shown_ = true;
}

void ShareLine::Show(int64_t done, int64_t all) {
  Show(all > 0 ? static_cast<double>(done) / static_cast<double>(all) : 0.0);
}

}  // namespace skerry
