// Who runs in the convergence benchmark, and how each one's learning rates are found.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/convergence_run.h"

namespace skerry::bench {

struct Contender {
  std::string name;   // "R4 tau 16 ternary"
  std::string study;  // "tau", "modes", "codecs", "table", "sums", "rest", "back", "missing" or
                      // "skip"; a baseline's is empty
  Training training;
  std::string baseline;  // the contender its loss is set against; itself for a baseline
};

inline constexpr int64_t kStudyTau = 16;  // of codecs, overlaps, missing messages, skipping

// All contenders with `replicas` replicas, the baseline first. With 8 and more only the curve over
// τ and the default tier.
std::vector<Contender> ContendersOf(int32_t replicas);

// Finds rates by coordinate descent from `start`: the outer (α, β) among four, then the inner rate
// by factors of two, as long as the loss falls. `train` gives the outcome of rates.
bool HasFixedOuterStep(const Training& training);  // a baseline's, data_parallel's
struct Tuned {
  Rates rates;
  Outcome outcome;
  int runs = 0;
};
absl::StatusOr<Tuned> Tune(const Training& training, const Rates& start,
                           const std::function<absl::StatusOr<Outcome>(const Rates&)>& train);

}  // namespace skerry::bench
