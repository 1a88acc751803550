// A node's part in its cohort (docs/decisions/0058-clusters.md): at the end of every inner step the
// members' sums of gradients are summed over a ring of them, with the counted microbatches, and
// each takes the same optimizer step on the result. So they hold the same weights, bit for bit.
// With overlap a sum is made while the next step computes, and is stepped on at its end: gradients
// are of weights that are one step old (Narayanan et al., "Memory-efficient pipeline-parallel DNN
// training", 2021, section 3.1, have the same rule), and a first step moves nothing.
//
// A part of the node's actor. The plan says who is in it; each set of living members is one
// formation of the ring. A formation first agrees on which sums are there: when a member dies in a
// ring some may have its result and some not, but no ring ends for anybody before all have begun
// it, so they differ by one at most. Who has it broadcasts it, to those who lack it; if nobody has,
// the rest sum anew. A ring that ends without a new plan is the coordinator's to mend: it hears who
// is blamed, at every heartbeat until a plan leaves that one out.
//
// Between two members, and over lanes, a sum goes in parts (StageWork::GradientParts) where all
// know how to: each begins as soon as all have given it, the first while their last backward pass
// still runs, beside which the ring's jobs have a queue of their own. It counts when its last part
// has ended, so all of the above holds. In a longer ring each part costs more than it hides.
//
// Where every member of a formation has a faster lane (group_lane.h) sums go over that; the ring
// stays, for all that is decided. A sum over the lane begins when all have given their parts, so
// that nobody waits in it for one who still computes, and counts when all have it: each says so on
// the ring, which again ends for nobody before all have begun to: with the next part, or at the
// end. Where one has not, all sum over the ring, from then on.
//
// A cohort of one goes the same way without a ring.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/group/group_lane.h"
#include "pipeline/exec/stage_work.h"
#include "pipeline/exec/transport_ring.h"
#include "wire/actor.h"

namespace skerry {

class Cohort {
 public:
  // Short, as a plan has to follow before the others wait for ten seconds.
  static constexpr Duration kPatience = Duration::Seconds(5);
  // Of a lane on which nothing moves; a library may take some seconds to find all members.
  static constexpr Duration kLanePatience = Duration::Seconds(20);

  struct Options {
    NodeId self;
    int32_t stage = 0;
    int32_t overlap_steps = 0;                   // 0 or 1
    int64_t steps = 0;                           // of the run
    std::function<JobId(Context&, Job)> submit;  // work for the device
    std::function<void(Context&, const NodeId& to, Message)> send;
    std::function<void(Context&, const CohortBroken&)> broken;
    std::function<void(const NodeId&)> silent;                  // a member that is not heard
    std::function<void(Context&)> summed;                       // a sum is here: Take
    std::function<void(Context&, const absl::Status&)> failed;  // the stage could not do its work
    GroupLaneFactory lane = {};                                 // empty: it has none
    // Sums go that way from now on; `why`: a lane failed.
    std::function<void(Context&, const std::string& way, const std::string& why)> way = {};
  };
  explicit Cohort(Options options) : options_(std::move(options)) {}
  Cohort(const Cohort&) = delete;
  Cohort& operator=(const Cohort&) = delete;

  // Before its work is there, too: whoever begins earlier waits.
  void OnPlan(Context& context, const PipelinePlan& plan);
  void SetWork(StageWork* work);
  void Leave(Context& context);  // for good

  // This node has accumulated its part of the step, of so many microbatches. In the order of steps;
  // to say it again is nothing.
  void Contribute(Context& context, int64_t step, int32_t microbatches);
  // The same in parts, before the step is over here, where it may now: all of them, in their order.
  bool MayGiveParts() const;
  void GivePart(Context& context, const GradientsMade& made);
  struct Sum {
    int32_t microbatches = 0;
    std::shared_ptr<std::vector<float>> values;  // and the microbatches, last
  };
  // What to step on at the end of the step that was contributed to last, to be taken once: of all
  // members; of nothing after a first step with overlap. nullptr: it is not here, and `summed` says
  // when it is. Values may be read by jobs as long as they are held.
  const Sum* Take(Context& context);
  int64_t tokens() const { return tokens_; }  // of all sums taken so far
  // Sums that were taken; how long they were under way, from this node's part to the result; and
  // how long steps of this node, else over, waited for them.
  struct Times {
    int64_t sums = 0;
    Duration summing, waiting;
  };
  const Times& times() const { return times_; }

  // From the owner's handlers. Those that are false were not for this cohort.
  bool OnMessage(Context& context, const NodeId& from, const Message& message);
  bool OnTimer(Context& context, TimerId timer);
  bool OnJobDone(Context& context, JobId job);
  void OnPeerRestarted(Context& context, const NodeId& peer);
  void OnHeartbeat(Context& context);
  // Other work than the ring's was, or is, on the device.
  void DeviceWasBusy(Instant now);

  const std::vector<NodeId>& members() const { return members_; }
  bool IsWaiting() const { return !last_.is_over && !last_.is_early; }
  std::string WaitingFor() const;  // for people; "": for nobody

 private:
  enum class Doing : uint8_t {
    kNothing,
    kAgreeing,
    kCatchingUp,
    kIntroducing,  // the lane's id
    kCopying,
    kSumming,
    kGathering,  // until all have given, for the lane
    kOnLane,
    kConfirming
  };
  struct Ring {
    uint64_t formation = 0;
    std::unique_ptr<TransportRing> ring;
    std::shared_ptr<std::vector<float>> values;  // of its operation
    std::shared_ptr<std::vector<float>> sum;     // its parts, as they come
    size_t part = 0;                             // of it, that is next
    bool in_parts = false;                       // all know how to
    std::unique_ptr<GroupLane> lane;             // nullptr: not used
    bool has_summed = false;                     // over the lane
    bool last_came = false;                      // over the lane: the part before
  };
  struct Taking {
    JobId job = 0;
    size_t parts = 0;  // that are there when it is done
    std::shared_ptr<std::vector<float>> into;
    std::shared_ptr<absl::Status> status;
  };

  void Form(Context& context, uint64_t formation);
  void NoteSilent(Instant now, const TransportRing& ring) const;
  void OnRingEnd(Context& context, uint64_t formation, const absl::Status& status);
  bool Agreed(Context& context, const std::vector<float>& has);
  void BeginToGive(Instant now);
  void Give(Context& context);
  void SubmitTaking(Context& context, size_t parts, double share,
                    std::function<absl::Status(std::vector<float>&)> take);
  bool OnTaken(Context& context, JobId job);
  void Keep(Instant now, int64_t step, std::shared_ptr<std::vector<float>> values);
  void TryToSum(Context& context);
  bool SumsInParts() const;
  size_t PartsOfSum() const { return SumsInParts() ? parts_.size() : 1; }
  bool HasGiven(size_t part) const;
  StageWork::GradientPart RangeOf(size_t part) const;
  double StandsFor() const;
  bool IsAlone() const { return members_.size() < 2; }

  // cohort_lane.cc
  void Introduce(Context& context);
  void MeetOnLane(Context& context, const std::vector<float>& introduced);
  void SumOnLane(Context& context);
  void WaitForLane(Context& context);
  void LookAtLane(Context& context);
  bool AllHaveIt(Context& context, const std::vector<float>& confirmed);
  void GatherOnRing(Context& context, Doing doing, float own);

  Options options_;
  StageWork* work_ = nullptr;
  std::vector<NodeId> members_;  // living, in slot order
  Ring now_;
  std::vector<Ring> past_;  // jobs of theirs may be under way
  Doing doing_ = Doing::kNothing;
  bool has_agreed_ = false;
  int64_t most_ = 0;  // sums that any member has
  std::optional<CohortBroken> broken_;
  bool all_have_lanes_ = false;
  TimerId lane_timer_ = 0;
  Instant lane_moved_;  // last, or begun
  int64_t lane_progress_ = 0;

  int64_t first_step_ = 0;
  struct {  // the last step that is accumulated here
    int64_t step = -1;
    int32_t microbatches = 0;
    Instant since;
    bool is_over = true;    // what it steps on is taken
    bool is_early = false;  // it is being given in parts, and not accumulated yet
  } last_;
  std::vector<StageWork::GradientPart> parts_;  // of the work's
  int64_t own_step_ = -1;                       // given, or being given
  Instant given_;                               // since when
  std::shared_ptr<std::vector<float>> own_;     // nullptr: summed
  size_t own_parts_ = 0;                        // of own_, that are there
  std::vector<Taking> taking_;                  // in their order
  JobId copy_job_ = 0;
  int64_t sum_step_ = -1;  // of the last sum that is here
  Sum sum_;
  Sum nothing_;
  int64_t tokens_ = 0;
  Times times_;
};

}  // namespace skerry
