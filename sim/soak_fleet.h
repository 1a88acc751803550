// The processes of a soak: one coordinator and a few nodes on this machine, as an operator and
// volunteers would start them, and everything that can be done to them.
//
// Process 0 is the coordinator, process n is node n. Whoever dies without having been told to is
// started again a second later, as a service is. Blocks nowhere but where it says so.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/instant.h"
#include "common/run_config.h"
#include "sim/child_process.h"
#include "sim/emulated_network.h"
#include "sim/soak_disk.h"
#include "sim/soak_draw.h"

namespace skerry {

struct SoakFleetOptions {
  std::string directory;  // of this leg; emptied
  std::string programs_dir;
  // Of another version: processes are of one and the other, and of the other at each start. Empty:
  // all are of programs_dir, as all else that is run always is.
  std::string other_programs_dir;
  std::string shards;  // prepared training data
  RunConfig run;
  int32_t nodes = 7;
  int32_t spares = 1;  // of them, the last; started when the others train
  bool small_disks = false;
};

// What somebody took to do something, against its goal: "leave", "interrupt".
struct SoakReaction {
  std::string what;
  Duration took;
};

class SoakProcesses {
 public:
  SoakProcesses(SoakFleetOptions options, EmulatedNetwork& network)
      : options_(std::move(options)), network_(network) {}
  ~SoakProcesses();

  // Makes the run's directory, starts the coordinator and all nodes but the spares. Blocks for as
  // long as `init` and `ticket` take.
  absl::Status Start(Instant now);
  void StartSpares(Instant now);

  // Begins and ends the disturbance of `event`.
  absl::Status Disturb(const SoakEvent& event, Instant now);
  void Heal(const SoakEvent& event, Instant now);

  // Notices who ended, starts again who is due. Complaints of the last call are in TakeComplaints.
  void Tend(Instant now);
  bool CoordinatorIsDone() const { return done_; }

  // The fleet's newest picture: status.json and what is known here.
  SoakFleet Look(Instant now);

  // After the coordinator ended: every node is let go, then asked to leave if it does not end by
  // itself. Blocks until `patience` has passed at most. Complains of whoever has to be killed.
  void End(Duration patience);

  std::string Log(int32_t process) const;
  std::string RunDirectory() const { return options_.directory + "/run"; }
  std::string NodeDirectory(int32_t node) const;
  std::vector<SoakReaction> TakeReactions() { return std::exchange(reactions_, {}); }
  std::vector<std::string> TakeComplaints() { return std::exchange(complaints_, {}); }

 private:
  struct Process {
    CommandLine command;
    std::unique_ptr<ChildProcess> child;  // null: not running
    Instant launched_at;
    std::optional<Instant> start_at;
    std::optional<Instant> told_to_leave;
    bool stopped = false;                   // by SIGSTOP
    bool expected_end = false;              // it was killed, or told to end
    std::optional<Instant> may_fail_until;  // its disk is full, or was until just now
    bool cut = false;
    // What status.json says of it is not believed before: it may be of the time before the fault.
    std::optional<Instant> unknown_until;
    int fails = 0;
    int starts = 0;
    double working_since_s = -1;
  };

  absl::Status Launch(int32_t process, Instant now);
  const std::string& ProgramsOf(int32_t process) const;
  void Signal(int32_t process, int signal);
  void Ended(int32_t process, const std::string& how, Instant now);
  void SetCut(int32_t node, bool cut);
  CommandLine NodeCommand(int32_t node, const std::string& ticket) const;

  SoakFleetOptions options_;
  EmulatedNetwork& network_;
  std::vector<Process> processes_;
  std::map<int32_t, SmallDisk> disks_;  // by process
  std::string last_status_;
  Instant status_at_;
  bool done_ = false;
  std::vector<SoakReaction> reactions_;
  std::vector<std::string> complaints_;
};

}  // namespace skerry
