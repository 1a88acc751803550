// A bound on a step from below, near enough to tell which changes of places are worth predicting:
// the device that computes most, and the stage-0 node whose microbatches take longest around.
//
// Of a change only what it touches is added up again, in the order in which the whole would be, so
// that the bits are those of the whole.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/plan/plan_model.h"

namespace skerry {

// Owns scratch memory. Not thread-safe.
class RoughStep {
 public:
  // The model is kept by reference, and its placement is what changes are made of. `gflops`: of the
  // nodes in its slots, [slots].
  RoughStep(const PlanModel& model, const std::vector<double>& gflops);

  // The nodes of two slots change places.
  double Exchanged(int32_t slot, int32_t other);
  // `node` of the model's fleet instead of the slot's; then nodes compute `gflops`, [slots].
  double Replaced(int32_t slot, int32_t node, const std::vector<double>& gflops);

 private:
  struct Hop {
    int32_t slot = 0;
    int32_t next = 0;
    double flops = 0;
  };

  double BusySeconds(int32_t slot) const;
  double AroundSeconds(int32_t home) const;
  double Seconds(int32_t slot, int32_t other);
  void Touch(int32_t slot);

  const Workload& workload_;
  const Fleet& fleet_;
  std::vector<std::vector<double>> flops_;   // [slot] of its visits, in order
  std::vector<std::vector<Hop>> tours_;      // [slot] of its own microbatches, in order
  std::vector<std::vector<int32_t>> homes_;  // [slot] whose tours visit it
  std::vector<double> busy_, around_;        // [slot] of the model's placement
  std::vector<double> usual_gflops_;
  Placement placement_;         // as changed, while something is added up
  std::vector<double> gflops_;  // [slot] likewise
  std::vector<uint8_t> busy_anew_, around_anew_;
};

}  // namespace skerry
