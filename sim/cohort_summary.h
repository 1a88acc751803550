// What cohorts were worth in a run that is over, for the demo: who was together, and how many bytes
// of deltas crossed between them, against as many replicas that each speak for themselves.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace skerry {

struct CohortTraffic {
  int64_t sent = 0;  // bytes of deltas, between cohorts
  int64_t alone =
      0;  // the same messages, if each replica had sent its own to all outside its cohort
};
// `plan` as `skerry-coordinator plan --json`; `events` the run's lines.
CohortTraffic TrafficOfCohorts(const nlohmann::json& plan, const std::string& events);

// "cohort 0 of stage 1: 3fa9ce01 (speaks) 12ab…", a line each, and the figures.
std::string CohortSummary(const nlohmann::json& plan, const std::string& events);

// Sums of gradients that members took, over all of them (pipeline/exec/cohort.h, Times).
struct SumTimes {
  int64_t sums = 0;
  double summing_s = 0;
  double waiting_s = 0;
  // Of the time that sums were under way, what no step waited for; 1 of none.
  double HiddenFraction() const;
  // What a node says when it has finished: the event's fields, or its line in a log of text. False:
  // nothing of a cohort.
  bool AddFields(const std::string& fields);
  bool AddLine(const std::string& line);
};
// "512 sums of gradients, 0.120 s each, 93.1 % of that behind compute"; "" of none.
std::string SumTimesText(const SumTimes& times);

}  // namespace skerry
