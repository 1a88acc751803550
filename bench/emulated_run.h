// A scenario run twice: by the real programs over shaped packets, and on virtual time.
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
};
struct RunPair {
  RunFigures real, simulated;
};

// `scenario` is a scenario's text whose nodes are of device "this"; `programs_dir` has skerry-sim
// and what it starts. An error ends the program (MustBeOk).
RunPair RunBoth(const std::string& programs_dir, const std::string& scenario, double nodes);

// The demo's topology with a model of no weight: an iteration is made of round trips.
std::string IterationScenario(int steps);

// Where the running program lies.
std::string ProgramsDirectory();

}  // namespace skerry::bench
