#include "coordinator/event_tail.h"

#include <algorithm>
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

absl::StatusOr<bool> EventTail::Read(int64_t bytes_max) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file_, error);
  if (error) return NotFound("%s: %s", file_.string(), error.message());
  size_ = static_cast<int64_t>(size);
  if (size_ < offset_) {
    const int64_t now_size = size_;
    *this = EventTail(file_);
    size_ = now_size;
  }
  const int64_t before = lines_;
  int64_t left = bytes_max;
  const auto end = ForEachLine(file_, offset_, [&](const std::string& line) {
    fold_.OnLine(line);
    ++lines_;
    const auto bytes = static_cast<int64_t>(line.size()) + 1;
    offset_ += bytes;
    if (offset_ - (stops_.empty() ? 0 : stops_.back().offset) >= stop_every_) NoteStop();
    return (left -= bytes) > 0;
  });
  SKERRY_RETURN_IF_ERROR(end.status());
  return lines_ != before;
}

double EventTail::share_read() const {
  return size_ <= 0 ? 1 : std::min(1.0, static_cast<double>(offset_) / static_cast<double>(size_));
}

void EventTail::NoteStop() {
  if (stops_.size() >= kStopsMax) {
    for (size_t i = 0; 2 * i + 1 < stops_.size(); ++i) stops_[i] = std::move(stops_[2 * i + 1]);
    stops_.resize(stops_.size() / 2);
    stop_every_ *= 2;
  }
  stops_.push_back({offset_, lines_, fold_});
}

RunReport EventTail::Report() const {
  return ReportOf(fold_);
}

absl::StatusOr<RunReport> EventTail::ReportUntil(double seconds) const {
  const auto after = std::partition_point(
      stops_.begin(), stops_.end(), [&](const Stop& stop) { return stop.fold.now_s() < seconds; });
  Stop from{0, 0, EventFold(EventFold::Keeps::kRecent)};
  if (after != stops_.begin()) from = *std::prev(after);
  int64_t left = lines_ - from.lines;
  SKERRY_RETURN_IF_ERROR(ForEachLine(file_, from.offset, [&](const std::string& line) {
                           if (left-- == 0) return false;
                           from.fold.OnLine(line);
                           return from.fold.now_s() < seconds;
                         }).status());
  return ReportOf(std::move(from.fold));
}

absl::StatusOr<std::vector<std::string>> EventTail::Lines(int64_t first, int64_t count) const {
  const auto after = std::partition_point(stops_.begin(), stops_.end(),
                                          [&](const Stop& stop) { return stop.lines <= first; });
  int64_t number = after == stops_.begin() ? 0 : std::prev(after)->lines;
  const int64_t offset = after == stops_.begin() ? 0 : std::prev(after)->offset;
  std::vector<std::string> lines;
  SKERRY_RETURN_IF_ERROR(ForEachLine(file_, offset, [&](const std::string& line) {
                           if (number >= first && number < lines_) lines.push_back(line);
                           return ++number < lines_ && static_cast<int64_t>(lines.size()) < count;
                         }).status());
  return lines;
}

}  // namespace skerry
