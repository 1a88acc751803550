// A plan while it is searched for: who holds which stage and which way every microbatch goes, with
// moves that keep every constraint, and their undoing.
//
// Kept always: stage sizes; the number of microbatches; every stage but the first is visited
// equally often; paths have their length, visit no stage twice and go back only as far as allowed;
// the largest link inside a stage is no slower than a limit. Kept unless loads are free: every node
// of a stage serves equally many microbatches (SkipPipe's rule).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/rng.h"
#include "routing/skippipe_evaluator.h"
#include "routing/skippipe_problem.h"

namespace skerry {

struct JointFreedom {
  bool placement = false;  // nodes may change stages
  bool loads = false;      // nodes of a stage may serve unequally many microbatches
  bool tours = true;       // else only nodes exchange their roles
};

// Where a change is likely to help, from a run of the present plan. May be empty.
struct JointHints {
  std::vector<SkipPipeEvaluator::Visit> critical;  // tasks that decide when the iteration ends
};

class JointState {
 public:
  // A first plan on this placement: round robin. The problem is kept by reference. `link_max_s`:
  // the slowest link allowed inside a stage; at least that of `partitions`. FailedPrecondition if
  // visits cannot be spread equally over stages.
  static absl::StatusOr<JointState> Create(const SkipPipeProblem& problem,
                                           std::vector<std::vector<int32_t>> partitions,
                                           double link_max_s);

  // Another first plan on this placement: later nodes in columns (joint_columns.h). False: there
  // are none, nothing has changed.
  bool ArrangeInColumns();

  // One random change. False: it would have broken a constraint, nothing has changed.
  bool Move(const JointFreedom& freedom, const JointHints& hints, Rng& rng);
  // Takes back the last Move that returned true.
  void Undo();

  const FlatSchedule& schedule() const { return schedule_; }
  const std::vector<std::vector<int32_t>>& partitions() const { return partitions_; }
  SkipPipeSchedule ToSchedule() const;

 private:
  struct Change {
    size_t index = 0;  // of schedule_.path
    int32_t node = 0;  // before
  };

  using Visit = SkipPipeEvaluator::Visit;

  explicit JointState(const SkipPipeProblem& problem) : problem_(&problem) {}

  void Set(int32_t microbatch, int32_t hop, int32_t node);
  int32_t StageAt(int32_t microbatch, int32_t hop) const;
  int32_t HopOf(int32_t microbatch, int32_t stage) const;  // −1: not visited
  int32_t RandomMicrobatch(Rng& rng) const;
  int32_t RandomHop(Rng& rng) const;  // past the first
  Visit RandomVisit(Rng& rng) const;  // past the first; often a critical one
  int32_t RandomNode(int32_t stage, Rng& rng) const;
  void Order(int32_t microbatch);  // visits by stage
  bool IsAllowed(int32_t microbatch) const;

  bool ExchangeVisits(Rng& rng);
  bool ExchangeStages(Rng& rng);
  bool ExchangeTails(Rng& rng);
  bool SwapNeighbours(Rng& rng);
  bool ExchangeNodes(const JointFreedom& freedom, Rng& rng);
  bool MoveVisit(Rng& rng);
  bool MoveTail(Rng& rng);
  bool MoveOrigin(Rng& rng);
  bool Rotate(Rng& rng);

  void FindAlike();
  bool AreAlike(int32_t a, int32_t b) const;
  void SwapRoles(int32_t a, int32_t b);
  bool FitsStage(int32_t node, int32_t stage, int32_t instead_of) const;
  void AssignLanes();
  bool Revert();

  const SkipPipeProblem* problem_;
  double link_max_s_ = 0;
  FlatSchedule schedule_;
  std::vector<std::vector<int32_t>> partitions_;
  std::vector<int32_t> stage_of_;  // [n]
  std::vector<bool> alike_;        // [n, n] exchanging the two would change nothing
  std::vector<Change> changes_;    // of the last move, in order
  int32_t swapped_a_ = -1;         // nodes whose roles it swapped
  int32_t swapped_b_ = -1;
  bool origins_moved_ = false;
  const JointHints* hints_ = nullptr;  // while Move runs
};

}  // namespace skerry
