// How long an iteration of a SkipPipe schedule takes: an event-driven model of the same rules as
// skippipe_simulator.h, without the artefacts of its time steps.
//
// A free node takes the waiting task that arrived first, fresh starts last; forwards without memory
// and starts whose lane's first microbatch is still out are passed over. Equal to the simulator on
// most of SkipPipe's own schedules and up to 3 % apart on the rest, where a tick served a later
// arrival first; up to 10 % apart on schedules tuned to one of the two. The inner loop of the
// search: about 12 µs for 20 nodes and 30 microbatches, nothing is allocated after the first call.
//
// Owns scratch memory. Not thread-safe; one per thread.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "routing/bucket_queue.h"
#include "routing/skippipe_problem.h"

namespace skerry {

// Schedules as the search keeps them: flat, all paths of equal length.
struct FlatSchedule {
  struct Microbatch {
    int32_t lane = 0;
    int32_t wave = 0;
    double release_s = 0;
  };
  int32_t length = 0;
  std::vector<int32_t> path;             // [microbatches, length] nodes
  std::vector<Microbatch> microbatches;  // lanes in [0, microbatches)

  int32_t size() const { return static_cast<int32_t>(microbatches.size()); }
  int32_t& At(int32_t microbatch, int32_t hop) { return path[Index(microbatch, hop)]; }
  int32_t At(int32_t microbatch, int32_t hop) const { return path[Index(microbatch, hop)]; }
  size_t Index(int32_t microbatch, int32_t hop) const {
    return static_cast<size_t>(microbatch) * static_cast<size_t>(length) + static_cast<size_t>(hop);
  }
};

// All paths of `schedule` have equal length.
FlatSchedule Flatten(const SkipPipeSchedule& schedule);

class SkipPipeEvaluator {
 public:
  // The reference is kept.
  explicit SkipPipeEvaluator(const SkipPipeProblem& problem);

  // Seconds until the last backward is done; infinite if that is more than `limit_s` (found out
  // early), or if the schedule cannot end (paths that go back can wait for each other's memory).
  double IterationSeconds(const FlatSchedule& schedule,
                          double limit_s = std::numeric_limits<double>::infinity());

  // The same plus `mean_weight` times the mean over microbatches of when they were back: the
  // iteration's time alone is a plateau to a search. Infinite if more than `limit`.
  double Cost(const FlatSchedule& schedule, double mean_weight, double limit);

  // Of the last call, if it was not cut short.
  double iteration_s() const { return end_s_; }
  double started_s(int32_t microbatch) const { return started_[static_cast<size_t>(microbatch)]; }

  // Of the last call, if it was not cut short: the tasks whose delay would delay the end, from the
  // last one back to a start. Each waits for the next of the list: its own input, or the task that
  // kept its node busy or held the memory.
  struct Visit {
    int32_t microbatch = 0;
    int32_t hop = 0;
  };
  void CriticalPath(std::vector<Visit>& visits) const;

 private:
  // A task of a microbatch. Position 0 … length − 1 are the forwards along the path, `length` is
  // the loss, then the backwards home.
  struct Step {
    int32_t node = 0;
    double service_s = 0;
    double transfer_s = 0;  // to the next step's node
    double rest_s = 0;      // from this step's start to the trip's end, without any waiting
  };
  using Event = TimedEvent;  // subject: the microbatch; of a wake, the node
  struct Node {
    double free_at = 0;
    int32_t memory = 0;
    int32_t last = kNone;        // task it served last
    bool wake = false;           // a wake is scheduled
    std::vector<Event> waiting;  // by arrival
  };
  static constexpr int16_t kWake = -1;  // position: the node is free again
  static constexpr int32_t kNone = -1;
  static constexpr int32_t kAmbiguous = -2;
  static constexpr double kNotStarted = -1;

  void Reset(const FlatSchedule& schedule);
  void ResetLanes(const FlatSchedule& schedule);
  void LoadTrip(int32_t microbatch);
  int32_t TaskIndex(const Event& task) const {
    return task.subject * (2 * length_ + 1) + task.position;
  }
  const Step& StepOf(const Event& task) const;
  bool IsReady(const Node& node, const Event& task) const;
  void Arrive(const Event& event);
  void Wake(const Event& event);
  void Serve(double now, const Event& task, int32_t after);
  void Reach(int32_t microbatch, double end_s);

  const SkipPipeProblem& problem_;
  const FlatSchedule* schedule_ = nullptr;
  int32_t length_ = 0;
  std::vector<int32_t> loaded_;  // [microbatches, length] the paths of steps_
  std::vector<Step> steps_;      // [microbatches, 2 · length + 1]
  std::vector<Node> nodes_;
  std::vector<uint8_t> lane_open_;  // [lane] its first microbatch is back
  BucketQueue events_;
  double horizon_s_ = 0;             // the last iteration that came to its end
  std::vector<double> started_;      // [microbatches]
  std::vector<double> reach_;        // [microbatches] back no sooner than
  std::vector<int32_t> follower_;    // [microbatches] next of the lane, or kNone
  std::vector<int32_t> lane_first_;  // [lane] its microbatch of wave 0
  std::vector<int32_t> after_;       // [steps_] the task each waited for, or kNone
  double reach_sum_ = 0;
  double mean_share_ = 0;  // weight of reach_sum_ in the cost
  double limit_ = 0;
  double end_s_ = 0;
  double last_done_s_ = 0;
  int32_t last_task_ = kNone;
  bool over_limit_ = false;
  int32_t done_ = 0;
};

}  // namespace skerry
