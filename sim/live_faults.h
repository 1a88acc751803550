// Faults that befall a running simulation at once, chosen by whoever watches it: storms and the
// grid of faults, which look first where the run is. A list that is known beforehand is
// fault_script.h's.
//
// Ways are cut where the network is: a network of flows knows cuts itself; a network of links has
// to be wrapped (Over) before the run is made.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/virtual_run.h"

namespace skerry {

class LiveFaults {
 public:
  // `story`: where what happens is told, if not nullptr; it outlives this.
  explicit LiveFaults(std::vector<std::string>* story = nullptr) : story_(story) {}

  // The link as the cuts that hold at present leave it.
  using LinkOf = std::function<SimLink(const NodeId& from, const NodeId& to)>;
  LinkOf Over(LinkOf usual);
  // Before any of the following; not owned.
  void Attach(VirtualRun* run) { run_ = run; }

  // Back after `away`; nullopt: never.
  void Kill(const NodeId& who, std::optional<Duration> away, Disk disk = Disk::kKept);
  void Hang(const NodeId& who, Duration lasts);
  // One direction.
  void CutWay(const NodeId& from, const NodeId& to, Duration lasts);
  // From everybody, both ways.
  void CutOff(const NodeId& who, Duration lasts);
  // Its process ends when it writes, and is not started again by this.
  void FillDisk(const NodeId& who, Duration lasts);
  // As by Ctrl-C. Nothing if it is down or hangs.
  void Leave(const NodeId& who);
  void SlowDevice(const NodeId& who, double factor, Duration lasts);
  void JumpClock(const NodeId& who, Duration by);
  // From now on its deltas, or its sums of sharded rounds, are no messages of the codec.
  enum class LieAbout : uint8_t { kDeltas, kSums };
  void Lie(const NodeId& who, LieAbout what);
  // From now on its sums of sharded rounds are so many times the true ones, and what it says that
  // it has left over follows from them if it covers that up. With arithmetic only.
  void FalsifySums(const NodeId& who, double factor, bool covers_up);
  // From now on it sends on what comes as if it had worked on it.
  void PassOn(const NodeId& who);

  void Tell(const std::string& what);
  // "node 3", "the coordinator".
  static std::string NameOf(const NodeId& who);
  // −1: the coordinator.
  static int32_t IndexOf(const NodeId& who);

 private:
  Simulation& simulation() { return run_->simulation(); }

  VirtualRun* run_ = nullptr;
  std::vector<std::string>* story_;
  using Way = std::pair<NodeId, NodeId>;
  std::map<Way, Instant> cut_until_;
  std::map<NodeId, Instant> full_until_, slow_until_;
};

}  // namespace skerry
