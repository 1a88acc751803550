// The event log of a week of a run of a thousand nodes, written by the writer that `serve` has
// (coordinator/event_file.h), of events with the fields that the coordinator gives them.
//
// Events come as often as they would: a step every few seconds, a round of every stage with what
// each replica says of it, links measured all the time, traces of as many bytes as they may take,
// deaths and returns, plans. What is thinned is the writer's doing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace skerry::bench {

struct WeekOptions {
  double days = 7;
  double step_s = 4;
  int64_t inner_steps = 64;
  int64_t stages = 25;
  double links_per_s = 8;
  double churn_s = 120;  // between a death and the next
};

struct Week {
  double seconds = 0;
  int64_t told = 0;         // events
  double told_bytes = 0;    // of them as lines of their own
  int64_t bytes = 0;        // of the file
};

// `nodes`: their short names, all of which take part. Ends the program where it cannot write.
Week WriteWeek(const std::filesystem::path& file, const std::vector<std::string>& nodes,
               const std::vector<std::string>& regions, const WeekOptions& options);

}  // namespace skerry::bench
