// A node's share of checks of pipeline work (docs/PROTOCOL.md, "Work is checked"): as a neighbour
// of a suspect it copies what passes between them, as a checker it collects the copies. Bounded
// whatever comes; an older check gives way to a newer one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "pipeline/exec/work_distance.h"
#include "wire/actor.h"

namespace skerry {

class WorkChecks {
 public:
  static constexpr size_t kWatchedMax = 256;  // visits, as a neighbour
  static constexpr size_t kCollectedMax = 6;  // as a checker, each up to four boundary tensors

  struct Whole {
    WorkCheck check;
    WorkParts parts;
  };
  struct Job {
    WorkCheck check;
    std::shared_ptr<std::optional<WorkDistance>> found;
  };

  explicit WorkChecks(NodeId self = {}) : self_(self) {}

  void Watch(const WorkCheck& check);
  bool Watches() const { return !watched_.empty(); }
  // Of what this node sent to `other`, or got of it: a copy, and for whom.
  std::optional<std::pair<NodeId, WorkCopy>> CopyOf(const NodeId& other, const Message& message,
                                                    bool was_sent);
  // False: nobody asked for it of that node. `input` has the right size (IsBoundary).
  bool Take(const NodeId& from, const WorkCopy& copy);
  // What is complete, once.
  std::optional<Whole> TakeWhole();

  std::map<JobId, Job> jobs;  // under way on the device

 private:
  using Key = std::tuple<int64_t, int32_t, NodeId>;  // step, microbatch, suspect
  struct Collected {
    WorkCheck check;
    std::array<int32_t, kWorkParts> attempts{-1, -1, -1, -1};
    WorkParts parts;
  };

  NodeId self_;
  std::map<Key, WorkCheck> watched_;
  std::map<Key, Collected> collected_;
};

}  // namespace skerry
