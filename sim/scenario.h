// A scenario: who takes part, where, over which network, training what, what goes wrong, what must
// hold. One file for `skerry-sim run` (virtual time) and `skerry-sim emulate` (real processes);
// docs/SIMULATION.md teaches the format and lists every key.
//
// A key that nobody knows, a value of another type or out of range, a pair of regions without a
// delay or a rate are errors with file and line: nothing is ignored, nothing is guessed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "sim/churn.h"
#include "sim/device_catalog.h"
#include "sim/fault_plan.h"
#include "sim/network_spec.h"

namespace skerry {

inline constexpr size_t kScenarioNodesMax = 100'000;

struct ScenarioNode {
  std::string group;  // name of its [[nodes]], for people
  std::string churn;  // name of its [churn.X]; "" : always there
  DeviceSpec device;
  NumberFormat format = NumberFormat::kFp32;
  bool nat = false;    // behind a router that lets nothing in
  bool relay = false;  // forwards for pairs of which neither can be dialled
};

// The nodes of one [churn.NAME].
struct ChurnGroup {
  std::string name;
  ChurnSpec spec;
  std::vector<int32_t> nodes;  // node numbers
  int line = 0;
};

// What is verified while a scenario runs.
enum class Checker : uint8_t {
  kPlanAgreement,
  kBaseAgreement,
  kMicrobatchConservation,
  kLedgerExact,
  kRoundsAtomic,
  kLiveness,
  kBoundedQueues,
  kRoundsOnTime,
  kDeltaConservation,
  kDeliveryExact,
};
inline constexpr std::array<const char*, 10> kCheckerNames = {
    "plan_agreement",     "base_agreement", "microbatch_conservation", "ledger_exact",
    "rounds_atomic",      "liveness",       "bounded_queues",          "rounds_on_time",
    "delta_conservation", "delivery_exact"};

// Figures that a run must reach; nullopt: not asked for.
struct Expectations {
  std::optional<double> step_s_min, step_s_max;  // median time of an inner step
  std::optional<double> hidden_fraction_min;     // of the rounds' transfer time
  std::optional<double> loss_ratio_max;          // final loss over that of the undisturbed run
  std::optional<double> tokens_per_s_min;        // over the whole run
  std::optional<double> rounds_min;              // outer rounds completed
  std::optional<double> finish_s_max;            // the run is over by then
  bool operator==(const Expectations&) const = default;
};

struct Scenario {
  std::string name;
  std::string about;
  std::string file;  // absolute path
  NetworkSpec network;
  std::vector<ScenarioNode> nodes;  // nodes[i] is node number i + 1 of the network
  RunConfig run;
  std::string text_file;  // training text, absolute path; "" if there is none (run needs none)
  Duration horizon;       // virtual time ends here at the latest
  std::vector<Fault> faults;
  std::vector<ChurnGroup> churn;
  std::vector<Checker> checkers;
  Expectations expect;
  bool tests_lines = true;  // the coordinator does (CoordinatorOptions::tests_lines)

  // Of node number `node`, 0 is the coordinator.
  const std::string& RegionOf(int32_t node) const;
};

// `path` is a scenario.toml or its directory. InvalidArgument with file and line for what is
// unknown or wrong, NotFound for a file that is not there.
absl::StatusOr<Scenario> LoadScenario(const std::string& path);

// Reads `text`; `file` names it in messages, and the data files are relative to its directory.
absl::StatusOr<Scenario> ParseScenario(const std::string& text, const std::string& file);

// The comings and goings of all groups, by (time, node).
absl::StatusOr<std::vector<ChurnEvent>> ChurnOf(const Scenario& scenario, uint64_t seed);

}  // namespace skerry
