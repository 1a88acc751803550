#include "coordinator/event_tail.h"

#include <fstream>
#include <functional>
#include <utility>

#include "common/status.h"

namespace skerry {
namespace {

// Whole lines from `offset` on, until `line` is not interested any more. The offset after them.
absl::StatusOr<int64_t> ForEachLine(const std::filesystem::path& file, int64_t offset,
                                    const std::function<bool(const std::string&)>& on_line) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return NotFound("%s: not there, or not to be read", file.string());
  in.seekg(offset);
  std::string line;
  while (std::getline(in, line) && !in.eof()) {
    offset += static_cast<int64_t>(line.size()) + 1;
    if (!on_line(line)) break;
  }
  return offset;
}

}  // namespace

absl::StatusOr<bool> EventTail::Read() {
  std::error_code error;
  const auto size = std::filesystem::file_size(file_, error);
  if (error) return NotFound("%s: %s", file_.string(), error.message());
  if (static_cast<int64_t>(size) < offset_) {
    fold_ = {};
    offset_ = lines_ = 0;
  }
  const int64_t before = lines_;
  SKERRY_ASSIGN_OR_RETURN(offset_, ForEachLine(file_, offset_, [&](const std::string& line) {
                            fold_.OnLine(line);
                            ++lines_;
                            return true;
                          }));
  return lines_ != before;
}

RunReport EventTail::Report() const {
  return ReportOf(fold_);
}

absl::StatusOr<RunReport> EventTail::ReportUntil(double seconds) const {
  EventFold fold;
  int64_t left = lines_;
  SKERRY_RETURN_IF_ERROR(ForEachLine(file_, 0, [&](const std::string& line) {
                           if (left-- == 0) return false;
                           fold.OnLine(line);
                           return fold.now_s() < seconds;
                         }).status());
  return ReportOf(std::move(fold));
}

absl::StatusOr<std::vector<std::string>> EventTail::Lines(int64_t first, int64_t count) const {
  std::vector<std::string> lines;
  int64_t number = 0;
  SKERRY_RETURN_IF_ERROR(ForEachLine(file_, 0, [&](const std::string& line) {
                           if (number >= first && number < lines_) lines.push_back(line);
                           return ++number < lines_ && static_cast<int64_t>(lines.size()) < count;
                         }).status());
  return lines;
}

}  // namespace skerry
