// What every device did and when, in Chrome's trace format (open in chrome://tracing or Perfetto):
// a row a node, a bar a job, a mark for crashes and faults.
//
// Watches a simulation; the file grows with the number of jobs, so it is for short runs.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "sim/simulation_observer.h"

namespace skerry {

class ChromeTrace final : public SimulationObserver {
 public:
  void OnJobStart(Instant at, const NodeId& process, JobId job, const std::string& name) override;
  void OnJobEnd(Instant at, const NodeId& process, JobId job) override;
  void OnCrash(Instant at, const NodeId& process) override;
  void OnFault(Instant at, const NodeId& process, const std::string& what) override;

  // Unavailable when it cannot be written.
  absl::Status Write(const std::string& path) const;

 private:
  void Add(const std::string& event);
  int32_t RowOf(const NodeId& process);
  void Mark(Instant at, const NodeId& process, const std::string& what);

  struct Running {
    Instant since;
    std::string name;
  };
  std::map<NodeId, int32_t> rows_;
  std::map<std::pair<NodeId, JobId>, Running> running_;
  std::string events_;
};

}  // namespace skerry
