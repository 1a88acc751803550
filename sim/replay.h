// A real run again on virtual time: its measured links, its devices, its configuration; and what
// would have been with one thing changed.
//
// What is known of the run is its event log (events.jsonl) and its configuration (run.toml, or the
// log's "run" line). Nodes hold what they held in the measured run, unless a change asks for
// another cut or other nodes: then the planner plans anew with the measured links. What is not
// known, and what is assumed instead, is said in `notes`: devices' memory (no limit), where the
// coordinator is (beside the node that reaches the others fastest), lines that several flows of a
// node share (none, or what its fastest measured flow got).
//
// The rate a device showed in its probe is not what it reaches in training, so one number is
// fitted: the share of the probed rates, the same for all devices, with which the simulated step
// takes as long as the measured one. Figures without that fit are kept beside.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "coordinator/report.h"
#include "sim/step_share.h"

namespace skerry {

struct ReplayNode {
  std::string id;  // NodeId::Short() of the real one
  std::string region;
  std::string device;
  double gflops = 0;  // > 0
};

// As the planner believes the probes: medians, outliers replaced (routing/link_estimator.h).
struct ReplayLink {
  double rtt_s = 0;
  double bytes_per_s = 0;  // as the prober reads it: the time of line and ends together
  bool operator==(const ReplayLink&) const = default;
};

// The rate of the line alone, bytes/s; 0: the ends took nearly all of the probe's time, so the line
// is too fast to be seen.
double LineRateOf(const ReplayLink& link);

struct ReplayedRun {
  RunConfig config;                                       // nodes_min: all of the nodes
  RunConfig measured_config;                              // before any change
  bool other_nodes = false;                               // some were added or removed
  std::vector<ReplayNode> nodes;                          // by id
  std::map<std::pair<size_t, size_t>, ReplayLink> links;  // (from, to), complete
  bool shared_lines = false;  // a node's flows share a line as fast as its fastest measured flow
  double device_share = 1;    // of the probed rates that training reaches
  RunReport report;           // what was measured
  std::vector<std::string> notes;
};

// `directory` is a coordinator's run directory or the output of an emulation. NotFound, or
// FailedPrecondition, when the log or the configuration is missing, or nothing was planned; the
// message says which file was looked for.
absl::StatusOr<ReplayedRun> LoadReplayedRun(const std::string& directory);
// The same from texts.
absl::StatusOr<ReplayedRun> ReplayedRunOf(const RunReport& report, const RunConfig& config);

// One change, or several with ';' between:
//   add-node:REGION:GFLOPS   with the links of a node of that region
//   add-node:like:ID         with rate and links of that node
//   remove-node:ID
//   set:SECTION.KEY=VALUE    of the configuration
//   link:A-B:mbps=X,rtt_ms=Y both ways between two nodes or regions; A>B: one way
// An id may be shortened as long as it is unique. InvalidArgument says what there is instead.
absl::StatusOr<ReplayedRun> WithChange(const ReplayedRun& run, const std::string& what_if);

struct ReplayFigures {
  double step_s = 0;            // median inner step
  double tokens_per_s = 0;      // from the plan to the last step
  double round_transfer_s = 0;  // median over rounds, of the slowest replica
  double hidden_fraction = 1;
  double bytes_per_token = 0;  // sent by nodes; 0: the run has not finished
  bool planned_anew = false;   // nodes hold other stages than in the measured run
  std::string wrong;           // it did not finish, and why; "" when it did
};

// The same figures from the log of a real or of a simulated run.
ReplayFigures FiguresOf(const RunReport& report);

// On virtual time, about `steps` inner steps of it.
ReplayFigures Simulate(const ReplayedRun& run, int64_t steps, uint64_t seed,
                       const OnShare& on_share = {});

// The share of the probed rates (in [0.02, 4]) for which the simulated step is as long as
// `step_s`, to one percent where it can be reached at all.
// `on_share` is told the share of the runs that it may take at most.
double FitDeviceShare(const ReplayedRun& run, double step_s, int64_t steps, uint64_t seed,
                      const OnShare& on_share = {});

}  // namespace skerry
