// Cohorts, as seen from outside: same weights at all members, one message for all.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "pipeline/plan/cohorts.h"
#include "pipeline/plan/route.h"
#include "sim/checkers.h"

namespace skerry {
namespace {

constexpr int64_t kStepsCompared = 64;

}  // namespace

void Checkers::OnSteppedTogether(Instant now, const NodeId& node, int64_t step,
                                 const Digest& weights) {
  made_[node] = step;
  CheckHeardOfJoiners(now, node, step);
  counted_since_step_[node] = 0;
  const auto plan = plans_.find(heard_plan_[node]);
  if (plan == plans_.end()) return;
  const auto slot = SlotOf(plan->second, node);
  if (!slot) return;
  const auto& cohorts = plan->second->stages[static_cast<size_t>(slot->stage)].cohorts;
  if (cohorts.empty() || options_.liars.contains(node)) return;
  if (CohortOf(plan->second, node).size() > 1) ++steps_together_;
  const Together of{slot->stage, cohorts[static_cast<size_t>(slot->replica)],
                    plan->second->start.since, step};
  const auto [first, is_first] = weights_.try_emplace(of, node, weights);
  if (!is_first && first->second.second != weights) {
    // A sum that only those had who are out of it by now is lost, and the rest have summed anew.
    const std::vector<NodeId> cohort = CohortOf(*state().plan, node);
    if (std::find(cohort.begin(), cohort.end(), first->second.first) == cohort.end()) {
      first->second = {node, weights};
      return;
    }
    Violate(now, "cohort_agreement",
            absl::StrFormat("after step %d %s and %s hold other weights, in cohort %d of stage %d",
                            step, first->second.first.Short(), node.Short(), of.cohort, of.stage));
  }
  std::erase_if(weights_, [&](const auto& old) { return old.first.step + kStepsCompared < step; });
}

void Checkers::NotePartings(const PipelinePlan& before, const PipelinePlan& plan) {
  for (size_t s = 0; s < plan.stages.size() && s < before.stages.size(); ++s) {
    const StageAssignment &was = before.stages[s], &is = plan.stages[s];
    for (size_t i = 0; i < is.cohorts.size() && i < was.cohorts.size(); ++i) {
      const bool stays = was.replicas[i] == is.replicas[i] && !IsDead(plan, is.replicas[i]) &&
                         JoinerOf(plan, is.replicas[i]) == nullptr;
      if (stays && was.cohorts[i] != is.cohorts[i]) ++partings_;
    }
  }
}

void Checkers::CheckOneOfCohort(Instant now, const RoundCommit& commit) {
  std::vector<NodeId> named;
  for (const Participant& p : commit.participants) named.push_back(p.node);
  if (SpeakersAmong(*state().plan, commit.stage, named).size() == named.size()) return;
  Violate(now, "cohort_agreement",
          absl::StrFormat("stage %d round %d takes two messages of one cohort", commit.stage,
                          commit.round));
}

// Of a sharded round. In others all hold the message itself.
void Checkers::CheckMadeByCohorts(Instant now, const RoundCommit& commit) {
  const auto stage = static_cast<size_t>(commit.stage);
  const bool has_cohorts = !state().plan->stages[stage].cohorts.empty();
  if (commit.messages.size() != (has_cohorts ? commit.participants.size() : 0)) {
    return Violate(
        now, "cohort_agreement",
        absl::StrFormat("stage %d round %d names %d messages of %d participants", commit.stage,
                        commit.round, commit.messages.size(), commit.participants.size()));
  }
  Holdings& said = held_[{commit.stage, commit.round}];
  for (size_t i = 0; i < commit.messages.size(); ++i) {
    const NodeId& participant = commit.participants[i].node;
    for (const NodeId& member : CohortOf(*state().plan, participant)) {
      const auto made = said[member].find(participant);
      if (made != said[member].end() && made->second == commit.messages[i]) continue;
      Violate(now, "cohort_agreement",
              absl::StrFormat("stage %d round %d takes a message of %s that %s has not said that "
                              "it made too",
                              commit.stage, commit.round, participant.Short(), member.Short()));
    }
  }
}

}  // namespace skerry
