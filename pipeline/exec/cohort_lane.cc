// Sums of a cohort over a faster lane than its ring's.

#include <algorithm>
#include <utility>

#include "pipeline/exec/cohort.h"

namespace skerry {
namespace {

// A lane's owner is woken by nothing else. Far less than a sum takes that a lane is worth it for.
constexpr Duration kLookAgain = Duration::Millis(2);

}  // namespace

// One member has an id made, the others wait for it on the ring.
void Cohort::Introduce(Context& context) {
  if (!all_have_lanes_ || !options_.lane) {
    has_agreed_ = true;
    return;
  }
  now_.lane = options_.lane();
  doing_ = Doing::kIntroducing;
  if (now_.ring->rank() == 0) {
    now_.lane->MakeId();
    return WaitForLane(context);
  }
  now_.values = std::make_shared<std::vector<float>>(1 + GroupLane::Id().size());
  now_.ring->SetStandsFor(1);
  now_.ring->Broadcast(context, *now_.values, 0);
}

// [whether there is one, a byte of the id …]
void Cohort::MeetOnLane(Context& context, const std::vector<float>& introduced) {
  has_agreed_ = true;
  if (introduced[0] != 1) {
    if (options_.way) options_.way(context, "messages", now_.lane->Words());
    return now_.lane.reset();
  }
  GroupLane::Id id = {};
  std::transform(introduced.begin() + 1, introduced.end(), id.begin(), [](float byte) {
    return byte >= 0 && byte < 256 ? static_cast<uint8_t>(byte) : 0;
  });
  now_.lane->Meet(id, now_.ring->rank(), now_.ring->size());
}

void Cohort::SumOnLane(Context& context) {
  const auto range = RangeOf(now_.part);
  now_.lane->Sum(own_, now_.sum, range.first, range.size);
  doing_ = Doing::kOnLane;
  WaitForLane(context);
}

void Cohort::WaitForLane(Context& context) {
  lane_moved_ = context.now();
  lane_progress_ = now_.lane->Look().moved;
  lane_timer_ = context.StartTimer(kLookAgain);
}

void Cohort::LookAtLane(Context& context) {
  lane_timer_ = 0;
  if (!now_.lane || (doing_ != Doing::kOnLane && doing_ != Doing::kIntroducing)) return;
  const GroupLane::Progress progress = now_.lane->Look();
  if (progress.moved != std::exchange(lane_progress_, progress.moved)) lane_moved_ = context.now();
  const bool may_come = context.now() - lane_moved_ < kLanePatience;
  if (progress.state == GroupLane::State::kUnderWay && may_come) {
    lane_timer_ = context.StartTimer(kLookAgain);
    return;
  }
  const bool is_done = progress.state == GroupLane::State::kDone;
  if (doing_ == Doing::kOnLane) {
    doing_ = Doing::kNothing;
    ++now_.part;
    now_.last_came = is_done;
    return TryToSum(context);
  }
  now_.values = std::make_shared<std::vector<float>>(1, is_done ? 1 : 0);
  const GroupLane::Id id = is_done ? now_.lane->id() : GroupLane::Id();
  now_.values->insert(now_.values->end(), id.begin(), id.end());
  now_.ring->SetStandsFor(1);
  now_.ring->Broadcast(context, *now_.values, 0);
}

// One value of each.
void Cohort::GatherOnRing(Context& context, Doing doing, float own) {
  doing_ = doing;
  now_.values = std::make_shared<std::vector<float>>(members_.size());
  (*now_.values)[static_cast<size_t>(now_.ring->rank())] = own;
  now_.ring->SetStandsFor(1);
  now_.ring->AllGather(context, *now_.values);
}

bool Cohort::AllHaveIt(Context& context, const std::vector<float>& confirmed) {
  const bool all = std::all_of(confirmed.begin(), confirmed.end(), [](float v) { return v == 1; });
  const bool own = confirmed[static_cast<size_t>(now_.ring->rank())] == 1;
  if (all) {
    if (!std::exchange(now_.has_summed, true) && options_.way)
      options_.way(context, now_.lane->Words(), "");
    return true;
  }
  if (options_.way)
    options_.way(context, "messages", own ? "another member's lane failed" : now_.lane->Words());
  now_.lane.reset();
  now_.part = 0;
  return false;
}

}  // namespace skerry
