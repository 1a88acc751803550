// What checkers, traces and statistics see of a simulation. Called in event order; an observer
// changes nothing.
#pragma once

#include <cstdint>
#include <string>

#include "common/ids.h"
#include "common/instant.h"
#include "wire/actor.h"

namespace skerry {

class SimulationObserver {
 public:
  virtual ~SimulationObserver() = default;
  // The first time a message leaves; repetitions are not reported.
  virtual void OnSent(Instant, const NodeId& /*from*/, const NodeId& /*to*/, const Message&) {}
  // Taken back before any of it left.
  virtual void OnWithdrawn(Instant, const NodeId& /*from*/, const NodeId& /*to*/, const Message&) {}
  // Before the receiver's handler runs.
  virtual void OnDelivered(Instant, const NodeId& /*from*/, const NodeId& /*to*/, const Message&) {}
  virtual void OnJobStart(Instant, const NodeId&, JobId, const std::string& /*name*/) {}
  virtual void OnJobEnd(Instant, const NodeId&, JobId) {}
  virtual void OnPersist(Instant, const NodeId&, const std::string& /*record*/) {}
  virtual void OnEvent(Instant, const NodeId&, const std::string& /*kind*/,
                       const std::string& /*json_fields*/) {}
  virtual void OnStart(Instant, const NodeId&) {}
  virtual void OnDiskLost(Instant, const NodeId&) {}  // before the start that finds it empty
  virtual void OnStop(Instant, const NodeId&, int /*exit_code*/, const std::string& /*reason*/) {}
  virtual void OnCrash(Instant, const NodeId&) {}
  // A fault begins or ends: "hang", "slow", "clock", "disk full", "cut".
  virtual void OnFault(Instant, const NodeId&, const std::string& /*what*/) {}
};

}  // namespace skerry
