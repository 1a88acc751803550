// What becomes of the checks of sums (docs/decisions/0048-checked-sums.md) and of pipeline work
// (0056-checked-work.md) in a run: counted from what the coordinator hears and journals, and held
// to who really lies.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "sim/simulation_observer.h"

namespace skerry {

struct SumTally {
  int64_t told_true = 0;      // by checkers
  int64_t accused = 0;        // said to be false or not shown, or nothing was said
  int64_t upheld = 0;         // of those the coordinator found true itself
  int64_t not_shown = 0;      // and those it was not shown either
  int64_t disputed = 0;       // sender and reducer contradict each other
  int64_t states_differ = 0;  // what was left over did not go on as it was said
  int64_t proofs = 0;
  int64_t liars = 0, liars_found = 0;  // who falsified sums of frozen rounds; put out by a proof
  int64_t liars_dropped = 0;           // put out for another reason that has to do with sums
  // Frozen rounds of one liar that had sums of its, until it was put out or the run was over.
  int64_t false_rounds = 0, false_rounds_max = 0;
  int64_t work_checked = 0, work_doubted = 0;  // visits; times that a checker began to doubt a node
  int64_t work_out = 0;                        // nodes put out for that

  void Add(const SumTally& other);
};

class SumWatch final : public SimulationObserver {
 public:
  explicit SumWatch(NodeId coordinator) : coordinator_(coordinator) {}

  // From now on it falsifies every sum that it makes.
  void OnLie(const NodeId& liar) { lies_.try_emplace(liar); }

  SumTally tally() const;
  // An honest node for whom there is a proof, or a liar who was in more than so many frozen rounds
  // with sums of its and is in the run still; empty: neither.
  std::string WhatIsWrong(int64_t false_rounds_max) const;

 private:
  struct Lie {
    std::set<std::pair<int32_t, int64_t>> summed;  // stage, round: it says that it has summed
    int64_t rounds = 0;
    bool is_proven = false, is_out = false;
  };
  void OnDelivered(Instant at, const NodeId& from, const NodeId& to,
                   const Message& message) override;
  void OnPersist(Instant at, const NodeId& process, const std::string& record) override;
  void OnEvent(Instant at, const NodeId& who, const std::string& kind,
               const std::string& fields) override;

  NodeId coordinator_;
  SumTally tally_;
  std::map<NodeId, Lie> lies_;
  std::string wrong_;
};

}  // namespace skerry
