// `skerry-node ring`: the ring that sums gradients between machines of a cluster, tried on them
// before a run: is it right, how fast, and what happens when a machine fails.
//
// One process is the host; the others come to it with its ticket and say Hello. When all are here
// it tells them of each other (Peers), then orders one trial after another (GroupTrial): each is a
// new group. The first run of its operation is checked (every member's digest against the sum that
// the definition gives), the second opens the way, the others are timed, between two small
// all-reduces, which nobody ends before all have begun them. Members answer with GroupTried. Who
// has not answered some seconds after a trial has ended is out, and the trial is made again with
// the others. At the end, Shutdown.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/exec/transport_ring.h"
#include "wire/actor.h"

namespace skerry {

// This process's part in one trial after another.
class RingTrialPart {
 public:
  struct Outcome {
    absl::Status status;
    Digest digest;       // of what the first operation left, as the operation defines it
    double seconds = 0;  // of the timed ones, all together
  };
  using OnOutcome = std::function<void(Context& context, const Outcome& outcome)>;
  explicit RingTrialPart(OnOutcome on_outcome) : on_outcome_(std::move(on_outcome)) {}

  // Ends what is under way. Called again only after the outcome.
  void Begin(Context& context, const GroupTrial& trial);
  bool OnMessage(Context& context, const NodeId& from, const Message& message);
  bool OnTimer(Context& context, TimerId timer);
  bool OnJobDone(Context& context, JobId job);
  void OnPeerRestarted(Context& context, const NodeId& peer);
  void Abort(Context& context, const absl::Status& why);
  bool busy() const { return busy_; }
  uint64_t group() const { return trial_.group; }

 private:
  bool IsBarrier() const { return done_ == 2 || done_ == trial_.times + 3; }
  void Operate(Context& context);
  void OnOperated(Context& context, const absl::Status& status);
  void Finish(Context& context, const absl::Status& status);
  void Submit(Context& context, std::function<void()> work);

  OnOutcome on_outcome_;
  GroupTrial trial_;
  std::unique_ptr<TransportRing> ring_;
  std::shared_ptr<std::vector<float>> values_;
  std::vector<float> barrier_;
  std::shared_ptr<Digest> digest_;
  bool busy_ = false;
  int32_t done_ = 0;  // operations
  Instant timed_since_;
  JobId job_ = 0;  // fills, or digests
};

// What each member of a trial is to hold then, by rank: from the definition alone.
std::vector<Digest> ExpectedDigests(const GroupTrial& trial);
// Bytes that one member sends in one operation (kernels/group/group.h).
double WireBytes(const GroupTrial& trial);
const char* NameOf(GroupOperation operation);

// One who came.
class RingTrialMember final : public Actor {
 public:
  struct Options {
    NodeId host;
    Hello hello;
    int64_t memory_bytes = INT64_MAX;  // a trial that needs more is refused, before it takes any
  };
  explicit RingTrialMember(Options options);
  void OnStart(Context& context) override;
  void OnMessage(Context& context, const NodeId& from, const Message& message) override;
  void OnTimer(Context& context, TimerId timer) override;
  void OnJobDone(Context& context, JobId job) override;
  void OnPeerRestarted(Context& context, const NodeId& peer) override;
  // Ctrl-C.
  void Leave(Context& context);

 private:
  static constexpr Duration kHostSilent = Duration::Seconds(30);
  Options options_;
  RingTrialPart part_;
  Instant heard_;  // of the host
  bool leaves_ = false;
  TimerId watch_ = 0;
};

// What a process of a trial holds of so many values: them, and their like while it checks.
int64_t RingTrialBytes(int64_t values);

struct RingTask {
  GroupOperation operation = GroupOperation::kAllReduce;
  int64_t values = 0;
  int32_t times = 1;  // timed ones
};
struct RingFigures {
  RingTask task;
  int32_t members = 0;
  double seconds = 0;           // of one operation
  double wire_bytes_per_s = 0;  // that a member sent
  bool is_right = false;        // at all members
};

class RingTrialHost final : public Actor {
 public:
  struct Options {
    std::string ticket;   // what a Hello must name
    int32_t members = 2;  // with this one
    std::string endpoint;
    bool dials_back = false;  // to find where members can be reached (Context::TryReach)
    std::vector<RingTask> tasks;
    uint64_t first_group = 1;
    std::function<void(const std::string& line)> say;
    std::function<void(const RingFigures& figures)> on_figures;
  };
  explicit RingTrialHost(Options options);
  void OnStart(Context& context) override;
  void OnMessage(Context& context, const NodeId& from, const Message& message) override;
  void OnTimer(Context& context, TimerId timer) override;
  void OnJobDone(Context& context, JobId job) override;
  void OnPeerRestarted(Context& context, const NodeId& peer) override;
  // Ctrl-C.
  void Stop(Context& context, int exit_code, const std::string& why);

 private:
  static constexpr Duration kRemindEvery = Duration::Seconds(5);
  static constexpr Duration kAnswersAfterError = Duration::Seconds(1);
  static constexpr Duration kAnswersAfterEnd = Duration::Seconds(30);
  static constexpr Duration kAnswersPerValue = Duration::Nanos(8);  // they digest theirs first
  static constexpr int kFailuresMax = 3;                            // in a row, with nobody out

  struct Came {
    std::optional<std::string> endpoint;  // where it can be reached; not known yet
    std::optional<GroupTried> tried;
  };
  void OnHello(Context& context, const NodeId& from, const Hello& hello);
  void Settle(Context& context, const NodeId& member, const std::string& endpoint);
  void Introduce(Context& context);
  void BeginTask(Context& context);
  void OnLeave(Context& context, const NodeId& from);
  void PutOut(Context& context, const NodeId& member, const char* why);
  void Judge(Context& context);
  void Compare(Context& context);
  void Report(Context& context);
  bool HaveAllAnswered() const;

  Options options_;
  RingTrialPart part_;
  std::map<NodeId, Came> members_;  // but this one
  bool begun_ = false;
  size_t task_ = 0;
  uint64_t group_;
  std::vector<NodeId> ranks_;
  GroupTrial trial_;
  std::optional<RingTrialPart::Outcome> own_;
  std::shared_ptr<std::vector<Digest>> expected_;
  JobId comparing_ = 0;
  bool lost_ = false;  // somebody, in this trial
  int failures_ = 0;
  TimerId remind_ = 0, deadline_ = 0;
};

}  // namespace skerry
