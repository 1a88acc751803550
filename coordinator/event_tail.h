// events.jsonl while it grows: what is new is read, a report can be had of it at any moment, also
// of a moment that is past.
//
// Memory and time do not grow with the run: the fold keeps what is long past as sums
// (EventFold::Keeps), and copies of it, so many bytes apart, are where looking back begins.
//
// A last line without its end is left for the next time. A file that became shorter is another
// file, and read from its beginning. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/report.h"
#include "coordinator/report_events.h"

namespace skerry {

class EventTail {
 public:
  static constexpr int64_t kStopEveryBytes = 1 << 20;  // at first; twice that whenever
  static constexpr size_t kStopsMax = 96;              // there are so many

  explicit EventTail(std::filesystem::path file) : file_(std::move(file)) {}

  // Reads what was written since, about `bytes_max` of it. True: there was something. NotFound
  // before there is a file.
  absl::StatusOr<bool> Read(int64_t bytes_max = INT64_MAX);
  // Of the file, when it was last looked at: 1, or less while there is more to read.
  double share_read() const;

  // Of all that was read.
  RunReport Report() const;
  // Of what was read, up to the first line that is `seconds` or more into the run (as in
  // ReportEvent::at_s).
  absl::StatusOr<RunReport> ReportUntil(double seconds) const;
  // Seconds from the first line to the last.
  double now_s() const { return fold_.now_s(); }

  // Whole lines as they stand in the file, from number `first` on, at most `count`.
  absl::StatusOr<std::vector<std::string>> Lines(int64_t first, int64_t count) const;
  int64_t lines() const { return lines_; }

 private:
  // What was known at this place of the file.
  struct Stop {
    int64_t offset = 0, lines = 0;
    EventFold fold;
  };
  void NoteStop();

  std::filesystem::path file_;
  EventFold fold_{EventFold::Keeps::kRecent};
  int64_t offset_ = 0;  // bytes read, all of them whole lines
  int64_t lines_ = 0;
  int64_t size_ = 0;  // of the file
  std::vector<Stop> stops_;
  int64_t stop_every_ = kStopEveryBytes;
};

}  // namespace skerry
