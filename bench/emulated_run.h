// A scenario run by the real programs over shaped packets, on virtual time, or both.
//
// Two cores cannot compute for several nodes at once, so such a scenario has a model so small that
// the network takes nearly all of the time; what is left of compute gets in the simulator the rate
// that the emulated nodes measured, divided by how many share a core.
#pragma once

#include <cstddef>
#include <string>

namespace skerry::bench {

// What a run's events say.
struct RunFigures {
  double predicted_s = 0;             // of a step, by the first plan
  double step_s = 0;                  // median between two steps
  double transfer_s = 0, wait_s = 0;  // medians of the rounds, over all nodes
  double gflops = 0;                  // median of what the nodes measured
  size_t steps = 0, rounds = 0;
  // Of all rounds but each stage's last, behind which there is nothing left to train: which part of
  // the time from a boundary to everything being there nobody stood idle for, and the sums.
  double hidden = 0, total_transfer_s = 0, total_wait_s = 0;
};
struct RunPair {
  RunFigures real, simulated;
};

// `scenario` is a scenario's text whose nodes are of device "this"; `programs_dir` has skerry-sim
// and what it starts. An error ends the program (MustBeOk).
RunPair RunBoth(const std::string& programs_dir, const std::string& scenario, double nodes);

// As RunBoth, one of the two; the devices of RunSimulated are all given by the scenario.
RunFigures RunEmulated(const std::string& programs_dir, const std::string& scenario);
RunFigures RunSimulated(const std::string& scenario);

// The demo's topology with a model of no weight: an iteration is made of round trips.
std::string IterationScenario(int steps);

// Where the running program lies.
std::string ProgramsDirectory();

}  // namespace skerry::bench
