// Where the time of one step went: the tasks of every device in it, as its nodes traced them or as
// the planner's model predicts them, the chain of them that ended last, and what would have made it
// shorter.
//
// Clocks of nodes are brought together as NTP does it: of a pair that sent each other messages, the
// shortest time there and the shortest back differ by twice the difference of the clocks, if the
// way is equally long in both directions. Nodes are tied together along the pairs with the shortest
// round trips, whose half bounds the error.
//
// The critical path goes from the last task back: a task waited for its input, which a message
// brought, or for its device, which did something else until then. So its parts add up to the whole
// time. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "wire/message/insight_message.h"

namespace skerry {

// A task on a clock that all share, in seconds since the first task of its step began.
struct PathTask {
  std::string node;  // NodeId::Short()
  TracedTask::Kind kind = TracedTask::Kind::kStart;
  int32_t microbatch = -1;
  int32_t attempt = 0;
  int32_t hop = 0;
  double ready_s = 0;
  double start_s = 0;
  double end_s = 0;
};
const char* TaskName(TracedTask::Kind kind);  // "forward"

struct TracedStep {
  int64_t step = 0;
  int64_t plan_version = 0;
  std::vector<PathTask> tasks;      // as measured; ordered by end, then node
  std::vector<PathTask> predicted;  // of the same microbatches; empty: no model
  double predicted_s = 0;           // of a step of this plan, in the long run; 0: no model
  bool is_cut = false;              // tasks of some microbatches were left out of the log
  double measured_s() const;        // from the first beginning to the last end
};

// Times of each node on its own clock → on one clock. `traces` by NodeId::Short().
std::vector<PathTask> OnOneClock(const std::map<std::string, StepTrace>& traces);

// What each task waited for. Indices into the tasks.
class TaskGraph {
 public:
  static constexpr size_t kNone = static_cast<size_t>(-1);
  explicit TaskGraph(const std::vector<PathTask>& tasks);
  size_t source(size_t task) const { return source_[task]; }         // whose result it needs
  size_t before(size_t task) const { return before_[task]; }         // on its device
  const std::vector<size_t>& in_order() const { return in_order_; }  // of beginning

 private:
  std::vector<size_t> source_, before_, in_order_;
};

// One part of the critical path, in order of time.
struct PathPart {
  enum class What : uint8_t { kComputing, kWay, kQueued };
  What what = What::kComputing;
  std::string from;  // kWay: who sent; else the node
  std::string to;    // kWay: who received
  size_t task = 0;   // index into the tasks: which computed, was brought there, or had to wait
  double start_s = 0;
  double end_s = 0;
};
std::vector<PathPart> CriticalPath(const std::vector<PathTask>& tasks);

// (from, to) of a part; to is "" for a node's computing, and "queued" where an input waited on a
// device that was busy with other things than this step's tasks.
std::pair<std::string, std::string> ShareOf(const PathPart& part);
// Of a path: each share → seconds.
std::map<std::pair<std::string, std::string>, double> SharesOf(const std::vector<PathPart>& path);

// The step with the same order of work on each device, if the ways between `from` and `to` took
// `factor` of their time, or (`to` is "") the tasks of `from` did.
double StepSecondsIf(const std::vector<PathTask>& tasks, const std::string& from,
                     const std::string& to, double factor);

// What would have helped most among the parts of the critical path, each made twice as fast.
struct Remedy {
  std::string from, to;  // as StepSecondsIf
  double step_s = 0;
};
std::vector<Remedy> Remedies(const std::vector<PathTask>& tasks);  // best first; at most five

// Of each node: how long its device stood idle in the step, and for whom it waited how long.
struct Idle {
  double idle_s = 0;
  double busy_s = 0;
  std::map<std::string, double> for_node;  // whose result came next
};
std::map<std::string, Idle> IdleTimes(const std::vector<PathTask>& tasks);

// The event "trace": times in integer microseconds. At most `tasks_max` tasks of each kind, whole
// microbatches of them, those on the critical path first.
nlohmann::json TraceJson(const TracedStep& step, size_t tasks_max);
// What cannot be read is left out.
TracedStep TraceOf(const nlohmann::json& event);

}  // namespace skerry
