// `skerry-sim soak`: real processes under random faults until the time is up, every fault held to
// what it may cost.
//
// Whole runs, one after the other (*legs*): the first undisturbed, the others with faults drawn
// from (seed, leg) by sim/soak_draw.h. All train the same model on the same tokens, so that what a
// disturbed leg ends with can be held against the undisturbed one. Of each event the longest time
// without progress is measured, from the coordinator's own event log; of each leg the loss on
// held-out text, the digests of all replicas, the journal (skerry-coordinator audit), processes and
// temporary files that are left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/emulated_network.h"
#include "sim/soak_draw.h"

namespace skerry {

struct SoakOptions {
  double minutes = 10;  // of disturbed legs; the last one is finished
  uint64_t seed = 1;
  std::string text_file = "/usr/share/dictd/gcide.dict.dz";  // the demo's; its beginning is used
  std::string out_dir;
  std::string programs_dir;        // where skerry-node and skerry-coordinator are
  std::string other_programs_dir;  // of another version, as SoakFleetOptions has it
  int64_t steps = 0;  // inner steps of a leg; 0: about two minutes of them, undisturbed
  int32_t legs = 0;   // instead of `minutes`; 0: as long as `minutes` says
  // Instead of disturbed legs so many pairs of undisturbed ones, one of each with checkpoints: what
  // they cost. 0: a soak.
  int32_t checkpoint_pairs = 0;
  EmulateShaper shaper = EmulateShaper::kAuto;
  bool small_disks = true;  // where the system allows them
  bool quiet = false;       // no line per event
};

// What the goals are; docs/OPERATING.md says what they mean.
inline constexpr double kSoakGapGoalS = 10;
inline constexpr double kSoakBackGoalS = 5;   // a coordinator, from its start to the next progress
inline constexpr double kSoakLeaveGoalS = 5;  // from Ctrl-C to the end of the process
inline constexpr double kSoakLossGoal = 1.02;
inline constexpr double kSoakCheckpointGoal = 1.02;  // training with checkpoints, over without

struct SoakEventResult {
  int32_t leg = 0;
  SoakEvent event;
  double at_s = 0;               // since the leg began
  std::optional<double> gap_s;   // longest time without progress; none before training or after it
  std::optional<double> back_s;  // of a coordinator that was started again
};

struct SoakLeg {
  int32_t number = 0;  // 0: undisturbed
  double seconds = 0;
  double training_s = 0;  // from the first progress to the last step; 0: it did not end
  bool checkpoints = false;
  int64_t steps = 0, rounds = 0, digests = 0;
  double loss = 0;                      // on held-out text; 0: no model came out
  std::vector<double> leave_s;          // how long every Ctrl-C took
  std::vector<std::string> complaints;  // whatever must not happen
  std::vector<SoakEventResult> events;
};

struct SoakResult {
  uint64_t seed = 0;
  std::string network;
  std::string not_drawn;  // faults that this machine does not allow, "" if it allows all
  std::vector<SoakLeg> legs;
};

// Blocks. `interrupted`: a signal came; the leg under way is ended and left out.
absl::StatusOr<SoakResult> Soak(const SoakOptions& options, const volatile bool& interrupted);

}  // namespace skerry
