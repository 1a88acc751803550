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

}  // namespace skerry
