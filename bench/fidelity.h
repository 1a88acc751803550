// The parts of `./dev bench fidelity`: does the packet emulator do what it says, and does the
// simulator say what the kernel's TCP does through it?
//
// Every part prints and records its figures beside their goals. Quick runs take a part of the
// cells.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "bench/statistics.h"
#include "sim/packet/packet_world.h"

namespace skerry::bench {

struct FidelityOptions {
  bool quick = false;
  bool verbose = false;      // print every cell
  std::string programs_dir;  // of skerry-sim and the programs it starts
};

// (a) The emulator alone: round trips, rates and losses of every link of the grid.
void BenchAccuracy(Bench& bench, const FidelityOptions& options);
// (b) Transfers alone, cold and warm.
void BenchTransfers(Bench& bench, const FidelityOptions& options);
// Several at once through one line.
void BenchSharing(Bench& bench, const FidelityOptions& options);
// Lossy links, as distributions.
void BenchLoss(Bench& bench, const FidelityOptions& options);
// (c), (d) Whole runs: outer steps and iteration time.
void BenchRuns(Bench& bench, const FidelityOptions& options);

// The shaper's own verdict on what it did since the last call: a figure measured with a late shaper
// is none. Records its lateness.
void CheckShaper(Bench& bench, PacketWorld& world, const std::string& during);

// Of simulated against real values.
class Errors {
 public:
  explicit Errors(const FidelityOptions& options) : verbose_(options.verbose) {}
  void Add(const std::string& cell, double simulated, double real);
  double mean() const { return count_ == 0 ? 0 : sum_ / count_; }
  double most() const { return most_; }
  const std::string& worst() const { return worst_; }

 private:
  bool verbose_;
  double sum_ = 0, most_ = 0;
  int count_ = 0;
  std::string worst_;
};

}  // namespace skerry::bench
