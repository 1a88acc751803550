// How long an iteration of a schedule takes, by the simulator published with SkipPipe, to the bit.
//
// It is time-stepped: in each second of simulated time every node, in order of index, looks at its
// tasks 15 times. A forward that finds no memory comes back 0.1 s later, behind what has arrived
// meanwhile; a task that arrives while another runs is put off to its end, where equal times go by
// arrival, fresh starts last. What cannot be served within its second is lost: a schedule that
// loses a microbatch takes infinitely long. skippipe_evaluator.h is the same model without these
// artefacts.
//
// Seconds and nodes in which nothing is due are passed over: about 30 µs for 20 nodes and 30
// microbatches. Owns scratch memory. Not thread-safe; one per thread.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "routing/skippipe_evaluator.h"
#include "routing/skippipe_problem.h"

namespace skerry {

struct SkipPipeOutcome {
  double end_s = 0;  // of the last backward that was done
  int32_t lost = 0;  // microbatches that never came back
};

class SkipPipeSimulator {
 public:
  // The reference is kept.
  explicit SkipPipeSimulator(const SkipPipeProblem& problem);

  // The schedule is valid.
  SkipPipeOutcome Run(const SkipPipeSchedule& schedule);

  // Seconds until the last backward is done; infinite if microbatches get lost.
  double IterationSeconds(const SkipPipeSchedule& schedule);

  // The same; also infinite if it is more than `limit_s`.
  double IterationSeconds(const FlatSchedule& schedule,
                          double limit_s = std::numeric_limits<double>::infinity());

 private:
  enum class Task : uint8_t { kForward, kLoss, kBackward };

  struct Item {
    double at = 0;        // earliest start, moved while it waits
    double received = 0;  // arrival; kFresh for what starts here
    int32_t microbatch = 0;
    int32_t hop = 0;
    Task task = Task::kForward;
    bool served = false;
  };
  struct Node {
    std::vector<Item> items;
    double free_at = 0;
    double due = 0;  // no item is due earlier
    int32_t memory = 0;
  };
  struct Microbatch {
    const int32_t* path = nullptr;
    int32_t length = 0;
    int32_t lane = 0;
    int32_t wave = 0;
  };

  void Reset();
  void Add(const Microbatch& microbatch, double release_s);
  SkipPipeOutcome Simulate(double limit_s);
  // One look of a node at its tasks; true if anything changed.
  bool Look(int32_t index, double second);
  bool Consider(int32_t index, size_t item, double second);
  void Serve(int32_t index, size_t item);
  void Forward(int32_t index, const Item& item);
  void Backward(int32_t index, const Item& item);
  void Send(double at, int32_t from, const Item& item, int32_t to_hop, Task task);
  void FindDue(Node& node, double second) const;
  double NextSecond(double second);

  const SkipPipeProblem& problem_;
  std::vector<Microbatch> microbatches_;
  std::vector<Node> nodes_;
  std::vector<int32_t> out_;  // [lane] 1 while the lane's first microbatch is under way
  size_t done_ = 0;
  double end_ = 0;
};

}  // namespace skerry
