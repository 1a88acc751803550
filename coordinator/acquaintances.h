// Who was told of whom, and who needs whom.
//
// A small fleet is told of everybody. In a large one that is n² entries and connections, of which
// nearly all are never used: there a node is told of those that it is measured with, of those that
// the plan has it talk to, of a few relays, and of whom it asks for (docs/PROTOCOL.md, 3;
// docs/decisions/0039-acquaintance.md). Of two nodes both are told, or neither.
//
// Pure. Not thread-safe.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "common/ids.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

class Acquaintances {
 public:
  // False: they were, or are the same.
  bool Meet(const NodeId& a, const NodeId& b);
  bool HaveMet(const NodeId& a, const NodeId& b) const { return Of(a).contains(b); }
  const std::set<NodeId>& Of(const NodeId& node) const;
  // It is gone: nobody was told of it.
  void Forget(const NodeId& node);

 private:
  std::map<NodeId, std::set<NodeId>> met_;
};

// Whom each live node of the plan talks to as long as nobody is late or dies: the holders of its
// stage (deltas, sums, state), the nodes before and after it on its paths, and at the other end of
// each path its stage-0 node (which says what is void, and is told who is late). Symmetric;
// ascending.
std::map<NodeId, std::vector<NodeId>> PlanPartners(const PipelinePlan& plan);

}  // namespace skerry
