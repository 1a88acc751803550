#include "localsgd/outer_schedule.h"

#include "common/check.h"

namespace skerry {

using Kind = OuterAction::Kind;

OuterSchedule::OuterSchedule(const OuterLaw& law)
    : inner_steps_(law.config.inner_steps),
      overlap_steps_(law.config.overlap_steps),
      fragments_(law.fragments),
      restart_(law.replica.restart) {
  SKERRY_CHECK(inner_steps_ >= 1 && overlap_steps_ >= 0 && overlap_steps_ <= inner_steps_);
  SKERRY_CHECK(fragments_ >= 1 && fragments_ <= inner_steps_);
}

int64_t OuterSchedule::RoundAt(int32_t fragment, int64_t steps) const {
  const int64_t since = steps - FirstBoundary(fragment);
  return since >= 0 && since % inner_steps_ == 0 ? since / inner_steps_ : -1;
}

std::vector<OuterAction> OuterSchedule::After(int64_t steps_done) const {
  SKERRY_CHECK(steps_done >= 1);
  std::vector<OuterAction> actions;
  for (int32_t f = 0; f < fragments_; ++f) {
    const int64_t ends = RoundAt(f, steps_done);
    if (restart_ && ends >= 0) {
      actions.push_back({Kind::kEncode, f, ends});
      actions.push_back(ends == 0 ? OuterAction{Kind::kRestart, f, 0}
                                  : OuterAction{Kind::kApply, f, ends - 1});
      continue;
    }
    const int64_t lands = restart_ ? -1 : RoundAt(f, steps_done - overlap_steps_);
    const bool at_once = overlap_steps_ == 0;
    if (lands >= 0 && !at_once) actions.push_back({Kind::kApply, f, lands});
    if (ends >= 0) actions.push_back({Kind::kEncode, f, ends});
    if (lands >= 0 && at_once) actions.push_back({Kind::kApply, f, lands});
  }
  return actions;
}

std::vector<OuterAction> OuterSchedule::AtEnd(int64_t steps_done) const {
  std::vector<OuterAction> actions;
  for (int32_t f = 0; f < fragments_; ++f) {
    const int64_t since = steps_done - FirstBoundary(f);
    const int64_t ended = since < 0 ? 0 : since / inner_steps_ + 1;  // boundaries so far
    const int64_t unsent =
        ended == 0 ? steps_done : steps_done - (FirstBoundary(f) + (ended - 1) * inner_steps_);
    const bool in_flight = ended > 0 && (restart_ || unsent < overlap_steps_);
    if (restart_ && unsent > 0) {
      actions.push_back({Kind::kEncode, f, ended});
      if (in_flight) actions.push_back({Kind::kApply, f, ended - 1});
      actions.push_back({Kind::kApply, f, ended});
      continue;
    }
    if (in_flight) actions.push_back({Kind::kApply, f, ended - 1});
    if (unsent == 0) continue;
    actions.push_back({Kind::kEncode, f, ended});
    actions.push_back({Kind::kApply, f, ended});
  }
  return actions;
}

}  // namespace skerry
