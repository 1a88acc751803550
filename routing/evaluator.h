// How long the steps of a plan take on given nodes: an event-driven model of what pipeline/exec
// does.
//
// A node computes one task at a time and does not interrupt it. When free it takes, of what is
// ready and not of a later step than its own, backward before loss before forward before a new
// start; within a kind the earlier step, then the smaller microbatch. A stage-0 node keeps at most
// `in_flight` of its own microbatches between start and last backward. A node's next step opens
// when it has done all its visits of the present one, and its optimizer's step. A link carries one
// message after another, bytes / its rate each, then a message travels rtt / 2 while the next one
// is sent. Messages on different links share the lines of their nodes (node_lines.h), which carry
// one after another as well: a line is never held up by a link slower than itself. What nodes that
// share a line (Fleet::line_of) send to others and get from them goes through that one, which has a
// way out and a way in. Before a message is of use its ends handle it, while lines carry others.
//
// So it is with Lines::kInTurn, which is for the inner loop of the placement search: about 0.1 µs
// per event, no allocation after the first call with equal sizes. With Lines::kShared messages that
// are under way at once share lines in equal parts (line_sharing.h), as TCP's do: of several that
// leave together all are late, not the last alone. That takes two to five times as long, and is for
// what a plan says of a step and for choices among few. Deterministic: ties in time go by order of
// creation.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace skerry {

class LineSharing;  // line_sharing.h

// The part of the problem that no placement changes. Slots are numbered over all stages, stage 0
// first.
struct Workload {
  struct Microbatch {
    int32_t step = 0;
    std::vector<int32_t> slots;  // its path; front is of stage 0
  };
  std::vector<int32_t> stage_of_slot;
  std::vector<Microbatch> microbatches;  // ascending by step; at least one
  std::vector<double> forward_flops;     // per stage; backward: kBackwardPerForward times that, and
                                         // Fleet::repeats
  double loss_flops = 0;
  std::vector<double> step_flops = {};  // per stage, of the optimizer; empty: none
  int32_t in_flight = 1;                // ≥ 1, per stage-0 node
  int32_t steps = 1;                    // microbatches[].step < steps

  int32_t slots() const { return static_cast<int32_t>(stage_of_slot.size()); }
  int32_t stages() const { return static_cast<int32_t>(forward_flops.size()); }
};

// What nodes and links can do, indices of nodes as in the caller's list.
struct Fleet {
  std::vector<double> gflops;     // [n] > 0
  std::vector<double> latency_s;  // [n, n] rtt / 2, row = from; infinite: not usable
  std::vector<double> wire_s;     // [n, n] boundary bytes / rate
  std::vector<double> share;      // [n, n] of those bytes that travel, in (0, 1]; empty: all
  double handling_s = 0;          // of a boundary payload, by its ends (kHandlingSecondsPerByte)
  // [stages, n] of the stage's forward pass that the node repeats on the way back, where its memory
  // does not hold what that reads, and what it waits for what lies elsewhere, in forward passes; ≥
  // 0; empty: none
  std::vector<double> repeats;
  // [stages, n] seconds of the optimizer's step besides Workload::step_flops, where the node's host
  // makes it; empty: none
  std::vector<double> host_step_s = {};
  // [n] the line through which a node sends to those that do not share it (LinkMatrix::LineOf);
  // −1: not known; empty: of nobody. [lines] the seconds that a boundary payload keeps it; 0: no
  // more is known than the links say.
  std::vector<int32_t> line_of = {};
  std::vector<double> line_s = {};
  int32_t size() const { return static_cast<int32_t>(gflops.size()); }
  // The line that a message goes through besides those of its nodes; −1: none.
  int32_t LineOf(int32_t from, int32_t to) const {
    if (line_of.empty()) return -1;
    const int32_t line = line_of[static_cast<size_t>(from)];
    return line == line_of[static_cast<size_t>(to)] ? -1 : line;
  }
  // How long a boundary payload keeps that line, or without one the link.
  double LineSeconds(int32_t from, int32_t to) const {
    const int32_t line = LineOf(from, to);
    const double line_seconds = line < 0 ? 0 : line_s[static_cast<size_t>(line)];
    const double link_s = wire_s[Pair(from, to)];
    return line_seconds > 0 && line_seconds < link_s ? line_seconds : link_s;
  }
  double ShareOf(size_t pair) const { return share.empty() ? 1 : share[pair]; }
  double RepeatsOf(int32_t stage, int32_t node) const {
    return repeats.empty() ? 0 : repeats[Pair(stage, node)];
  }
  double HostStepOf(int32_t stage, int32_t node) const {
    return host_step_s.empty() ? 0 : host_step_s[Pair(stage, node)];
  }
  // What a message takes besides its latency where nothing is in its way.
  double TravelWire(size_t pair) const { return (wire_s[pair] + handling_s) * ShareOf(pair); }
  size_t Pair(int32_t from, int32_t to) const {
    return static_cast<size_t>(from) * gflops.size() + static_cast<size_t>(to);
  }
};

// node_of_slot[s] is the node that fills slot s; a node fills at most one slot.
using Placement = std::vector<int32_t>;

struct Evaluation {
  double step_s =
      0;  // per step: the end of the last one / steps. Infinite if a link is not usable.
  std::vector<double> busy_s;     // [slots] computing, per step
  std::vector<double> waiting_s;  // [slots] the rest of step_s
  int32_t critical_slot = -1;     // the one that computes most
};

// One task as the model ran it, for charts and for finding out what limits a step.
struct TaskRecord {
  // kStep: the optimizer's; its microbatch and hop are those of the visit that ended the step.
  enum class Kind : uint8_t { kBackward, kLoss, kForward, kStart, kStep };
  int32_t slot = 0;
  int32_t microbatch = 0;  // index into Workload::microbatches
  int32_t hop = 0;
  Kind kind = Kind::kForward;
  double arrived_s = 0;  // its input; a start has none: when its step opened or before
  double start_s = 0;
  double end_s = 0;
};

// See node_lines.h.
struct NodeLines {
  // [n, n] as Fleet::wire_s and never more than that: of the sender's line, of the receiver's.
  std::vector<double> up_s;
  std::vector<double> down_s;
};

// Slots that wait for each other at the end of every step, and then so long before their next one
// opens: cohorts, which sum their gradients (stage_traffic.h). With overlap the wait is for what
// was summed of the step before: the sum of a step begins when all members have opened the next.
struct StepRings {
  std::vector<int32_t> ring_of_slot;  // [slots]; −1: none
  std::vector<double> seconds;        // [rings]
  bool overlap = false;
};

// Messages besides those of microbatches, for which nobody waits: of an outer round (held_up.h).
struct RoundMessages {
  struct Message {
    int32_t from = 0, to = 0;  // slots, not the same
    double share = 0;          // of a boundary payload, > 0
  };
  std::vector<Message> messages;  // a slot hands its own over in this order, all at once,
  int32_t after_steps = 0;        // when it has done so many steps
};

// What a line does with several messages: it carries one after another, or all at once, each as
// fast as its part of the line.
enum class Lines : uint8_t { kInTurn, kShared };

// Owns scratch memory. Not thread-safe; one per thread.
class Evaluator {
 public:
  // References are kept. A `round` shares lines with the microbatches, so `lines` do; nullptr:
  // none.
  Evaluator(const Workload& workload, const Fleet& fleet, Lines lines = Lines::kInTurn,
            const RoundMessages* round = nullptr);
  ~Evaluator();

  // `rings` nullptr: nobody waits for others. Infinite, and sooner known, where a step takes longer
  // than `limit_s`: a node is sure to be late by what it has still to compute. What takes no longer
  // is never given up.
  double StepSeconds(const Placement& placement, const StepRings* rings = nullptr,
                     double limit_s = std::numeric_limits<double>::infinity());
  Evaluation Evaluate(const Placement& placement, const StepRings* rings = nullptr);
  // Every task by its start. Empty if a link is not usable.
  std::vector<TaskRecord> Trace(const Placement& placement, const StepRings* rings = nullptr);

  // Begun by all of those calls: what they cost, in a unit that is the same on every machine.
  int64_t tasks() const { return tasks_; }

 private:
  // In order of preference, as in pipeline/exec.
  using Task = TaskRecord::Kind;

  struct Event {
    int32_t slot = 0;
    int32_t microbatch = 0;
    int32_t hop = 0;
    Task task = Task::kForward;
    bool done = false;  // the task is over; otherwise its input has arrived
    int32_t ring = -1;  // instead of all that: its sum is there
  };
  static constexpr uint32_t kNoEvent = std::numeric_limits<uint32_t>::max();  // a tag
  struct Due {  // small: a heap moves many for each event
    double at = 0;
    uint32_t order = 0;  // of creation
    uint32_t event = 0;
    // Times are not negative, so their bits are ordered as they are: no branch to mispredict.
    bool operator>(const Due& o) const { return Key() > o.Key(); }
    __extension__ using Wide = unsigned __int128;
    Wide Key() const { return Wide{std::bit_cast<uint64_t>(at)} << 64 | order; }
  };
  struct Ready {  // a task whose input is here
    int32_t step = 0;
    Task task = Task::kForward;
    int32_t microbatch = 0;
    int32_t hop = 0;
    double arrived_s = 0;
    bool operator<(const Ready& other) const {
      return task != other.task ? task < other.task : microbatch < other.microbatch;
    }
  };
  struct Server {
    bool busy = false;
    int32_t step = 0;                           // the open one
    int32_t left = 0;                           // visits of it still to be done
    bool steps_next = false;                    // the optimizer's step is the next that it does
    int32_t last_microbatch = 0, last_hop = 0;  // of its last backward
    int32_t in_flight = 0;                      // own microbatches
    double uplink_free = 0;
    double downlink_free = 0;
    double busy_s = 0;
    double left_s = 0;      // to be computed yet
    size_t next_start = 0;  // index into starts_
    std::vector<Ready> ready;
  };

  void Reset();
  void CountLeft();
  void OpenSteps(Server& server, int32_t slot) const;
  void EndStep(double now, int32_t slot);
  void SumSoon(double now, int32_t ring);
  void OpenTogether(double now, int32_t ring);
  void OpenNext(int32_t slot);
  void Stepped(double now, int32_t slot);
  void SendRound(double now, int32_t slot);
  void GoOn(double now, int32_t slot, bool has_stepped = false);
  void SumIsThere(double now, int32_t ring);
  int32_t RingOf(int32_t slot) const {
    return rings_ == nullptr ? -1 : rings_->ring_of_slot[static_cast<size_t>(slot)];
  }
  void Schedule(double at, const Event& event) { Push(at, Keep(event)); }
  uint32_t Keep(const Event& event);
  void Push(double at, uint32_t event);
  void HandleNext();
  void Leave();
  void Send(double now, int32_t microbatch, int32_t from_hop, int32_t to_hop, Task task);
  Due PopDue();
  void Arrive(double now, const Event& event);
  void Finish(double now, const Event& event);
  void Dispatch(double now, int32_t slot);
  bool Choose(Server& server, int32_t slot, Ready& chosen) const;
  std::vector<std::pair<int32_t, int32_t>> NumberLinks();  // of each the slots
  int32_t SlotAt(int32_t microbatch, int32_t hop) const;
  double TaskSeconds(int32_t slot, Task task) const;

  const Workload& workload_;
  const Fleet& fleet_;
  const NodeLines lines_;
  const Placement* placement_ = nullptr;
  const StepRings* rings_ = nullptr;
  std::vector<int32_t> working_;              // [rings] members whose step is not over, or, with
                                              // overlap, who have not given their part of one
  std::vector<int32_t> summed_;               // [rings] with overlap: steps
  std::vector<std::vector<int32_t>> starts_;  // [slot] own microbatches in order
  std::vector<std::vector<int32_t>> visits_;  // [slot][step] how many
  std::vector<Server> servers_;
  // Links between slots, numbered as they are used: [first_way_[microbatch] + 2 · hop] to the next
  // slot of the tour, + 1 to the one before.
  std::vector<int32_t> ways_;
  std::vector<size_t> first_way_;
  const RoundMessages* round_;
  std::vector<int32_t> round_ways_;  // of its messages
  std::vector<uint8_t> has_sent_;    // [slots] what it has of the round
  std::vector<double> link_free_, line_free_;
  std::unique_ptr<LineSharing> sharing_;  // nullptr: one after another
  std::vector<Due> due_;                  // a heap of degree kHeapDegree, earliest first
  std::vector<Event> events_;
  std::vector<uint32_t> free_events_;
  uint32_t created_ = 0;
  double end_ = 0;
  double end_max_ = 0;  // later than that is given up
  int64_t tasks_ = 0;
  bool is_usable_ = true;                       // every link used so far, and no node late
  std::vector<TaskRecord>* records_ = nullptr;  // while Trace runs
};

}  // namespace skerry
