// How much of a virtual run's steps is done, for who waits for it.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "sim/virtual_run.h"

namespace skerry {

// Told of each step, with the share of all of them; a run that goes back tells less again.
using OnShare = std::function<void(double share)>;

// Lives as long as the run that it observes.
class StepShare final : public SimulationObserver {
 public:
  StepShare(VirtualRun& run, OnShare on_share)
      : steps_(run.options().config.steps), on_share_(std::move(on_share)) {
    if (on_share_) run.simulation().Observe(this);
  }

 private:
  void OnEvent(Instant, const NodeId&, const std::string& kind, const std::string& fields) override;

  int64_t steps_;
  OnShare on_share_;
};

}  // namespace skerry
