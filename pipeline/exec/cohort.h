// A node's part in its cohort (docs/decisions/0058-clusters.md): at the end of every inner step the
// members' sums of gradients are summed over a ring of them, with the counted microbatches, and
// each takes the same optimizer step on the result. So they hold the same weights, bit for bit.
//
// A part of the node's actor. The plan says who is in it; each set of living members is one
// formation of the ring. A formation first agrees on which sums are there: when a member dies in a
// ring some may have its result and some not, but no ring ends for anybody before all have begun
// it, so they differ by one at most. Who has it broadcasts it, to those who lack it; if nobody has,
// the rest sum anew. A ring that ends without a new plan is the coordinator's to mend: it hears who
// is blamed, at every heartbeat until a plan leaves that one out.
//
// A cohort of one goes the same way without a ring.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "pipeline/exec/stage_work.h"
#include "pipeline/exec/transport_ring.h"
#include "wire/actor.h"

namespace skerry {

class Cohort {
 public:
  // Short, as a plan has to follow before the others wait for ten seconds.
  static constexpr Duration kPatience = Duration::Seconds(5);

  struct Options {
    NodeId self;
    int32_t stage = 0;
    std::function<JobId(Context&, Job)> submit;  // work for the device
    std::function<void(Context&, const NodeId& to, Message)> send;
    std::function<void(Context&, const CohortBroken&)> broken;
    std::function<void(const NodeId&)> silent;                  // a member that is not heard
    std::function<void(Context&)> summed;                       // SumOf has changed
    std::function<void(Context&, const absl::Status&)> failed;  // the stage could not do its work
  };
  explicit Cohort(Options options) : options_(std::move(options)) {}
  Cohort(const Cohort&) = delete;
  Cohort& operator=(const Cohort&) = delete;

  // Before its work is there, too: whoever begins earlier waits.
  void OnPlan(Context& context, const PipelinePlan& plan);
  void SetWork(StageWork* work) { work_ = work; }
  void Leave(Context& context);  // for good

  // This node has accumulated its part of the step, of so many microbatches. In the order of steps,
  // each once, and only when the sum of the one before is here.
  void Contribute(Context& context, int64_t step, int32_t microbatches);
  bool HasContributed(int64_t step) const { return own_step_ >= step; }
  struct Sum {
    int64_t step = -1;
    int32_t microbatches = 0;
    std::shared_ptr<std::vector<float>> values;  // and the microbatches, last
  };
  // Of all members; nullptr: it is not here. Values may be read by jobs as long as they are held.
  const Sum* SumOf(int64_t step) const { return sum_.step == step ? &sum_ : nullptr; }
  int64_t tokens() const { return tokens_; }  // of all sums so far

  // From the owner's handlers. Those that are false were not for this cohort.
  bool OnMessage(Context& context, const NodeId& from, const Message& message);
  bool OnTimer(Context& context, TimerId timer);
  bool OnJobDone(Context& context, JobId job);
  void OnPeerRestarted(Context& context, const NodeId& peer);
  void OnHeartbeat(Context& context);
  // Other work than the ring's was, or is, on the device.
  void DeviceWasBusy(Instant now);

  const std::vector<NodeId>& members() const { return members_; }
  std::string WaitingFor() const;  // for people; "": for nobody

 private:
  enum class Doing : uint8_t { kNothing, kAgreeing, kCatchingUp, kCopying, kSumming };
  struct Ring {
    uint64_t formation = 0;
    std::unique_ptr<TransportRing> ring;
    std::shared_ptr<std::vector<float>> values;  // of its operation
  };

  void Form(Context& context, uint64_t formation);
  void NoteSilent(Instant now, const TransportRing& ring) const;
  void OnRingEnd(Context& context, uint64_t formation, const absl::Status& status);
  void Agreed(Context& context);
  void TakeSum(int64_t step, std::shared_ptr<std::vector<float>> values);
  void TryToSum(Context& context);
  double StandsFor() const;
  bool IsAlone() const { return members_.size() < 2; }

  Options options_;
  StageWork* work_ = nullptr;
  std::vector<NodeId> members_;  // living, in slot order
  Ring now_;
  std::vector<Ring> past_;  // jobs of theirs may be under way
  Doing doing_ = Doing::kNothing;
  bool has_agreed_ = false;
  int64_t most_ = 0;  // sums that any member has
  std::optional<CohortBroken> broken_;

  int64_t own_step_ = -1;
  std::shared_ptr<std::vector<float>> own_;  // nullptr: on its way, or summed
  std::shared_ptr<std::vector<float>> taken_;
  std::shared_ptr<absl::Status> take_status_;
  JobId take_job_ = 0, copy_job_ = 0;
  Sum sum_;
  int64_t tokens_ = 0;
};

}  // namespace skerry
