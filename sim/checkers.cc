#include "sim/checkers.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/round_clock.h"
#include "common/status.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

constexpr int64_t kStepsRemembered = 256;
constexpr double kPatienceSteps = 10;   // as long as so many predicted steps nobody need move on
constexpr size_t kViolationsMax = 100;  // the first ones tell the story

template <typename Kind>
constexpr bool kIsPreparation =
    std::is_same_v<Kind, LinkReading> || std::is_same_v<Kind, PlanUpdate> ||
    std::is_same_v<Kind, ObjectChunk> || std::is_same_v<Kind, Hello>;

bool IsPreparation(const Message& message) {
  return std::visit([](const auto& m) { return kIsPreparation<std::decay_t<decltype(m)>>; },
                    message);
}

}  // namespace

const std::vector<std::string>& CheckerRules() {
  static const std::vector<std::string> kRules = {
      "plan_agreement",     "base_agreement",          "rounds_atomic", "rounds_on_time",
      "delta_conservation", "microbatch_conservation", "ledger_exact",  "liveness",
      "bounded_queues",     "cohort_agreement",        "delivery_exact"};
  return kRules;
}

Checkers::Checkers(CheckerOptions options)
    : options_(std::move(options)), audit_(options_.config) {}

bool Checkers::Checks(const char* rule) const {
  return options_.rules.empty() || options_.rules.contains(rule);
}

void Checkers::Violate(Instant now, const char* rule, std::string what) {
  if (Checks(rule) && violations_.size() < kViolationsMax) {
    violations_.push_back({rule, std::move(what), now});
  }
}

void Checkers::OnPersist(Instant now, const NodeId& node, const std::string& record) {
  if (node != options_.coordinator) return;
  if (record.find(R"("kind":"rewind")") != std::string::npos) {
    for (const auto& [key, commit] : state().commits) past_commits_[key].push_back(commit);
  }
  audit_.Add(record);
  NoteFindings(now);
  if (state().rewinds != rewinds_) NoteRewind(now);
  const std::pair lives{state().lives, state().plan ? state().plan->version : 0};
  if (std::exchange(lives_checked_, lives) != lives) NoteGone();
  CheckPlanRecord(now);
  CheckCommitRecords(now);
}

// Rounds and digests have rules of their own here, which know who lies.
void Checkers::NoteFindings(Instant now) {
  for (; findings_seen_ < audit_.findings().size(); ++findings_seen_) {
    const AuditFinding& finding = audit_.findings()[findings_seen_];
    if (finding.rule != "records" && finding.rule != "samples") continue;
    Violate(now, "ledger_exact",
            absl::StrFormat("journal record %d: %s", finding.record, finding.what));
  }
}

// Everybody of the plan holds nothing of before: it has said so. Others may not have heard yet.
void Checkers::NoteRewind(Instant now) {
  rewinds_ = state().rewinds;
  counted_.clear();
  last_counted_.clear();
  counted_since_step_.clear();
  led_around_.clear();
  held_.clear();
  sums_held_.clear();
  commits_checked_.clear();
  digests_.clear();
  made_.clear();
  fixed_by_.clear();
  step_of_.clear();
  best_step_ = state().plan->start.step;
  progress_ = now;
  lost_to_rewinds_ = NotCreditedBelow(best_step_);
}

void Checkers::NoteGone() {
  for (const auto& [id, known] : state().nodes) {
    if (known.alive) continue;
    delivery_.OnGone(id);
    if (state().plan && SlotOf(*state().plan, id) && !IsDead(*state().plan, id))
      put_out_.insert(id);
  }
}

void Checkers::CheckPlanRecord(Instant now) {
  if (!state().plan) return;
  const PipelinePlan* before = plans_.empty() ? nullptr : &*plans_.rbegin()->second;
  const auto [it, is_new] = plans_.try_emplace(state().plan->version, *state().plan);
  if (!planned_at_) planned_at_ = now;
  if (is_new) options_.config = Settled(std::move(options_.config), it->second);
  if (is_new) NoteNewPlan(now, before, it->second);
  if (!is_new && *it->second != *state().plan) {
    Violate(now, "plan_agreement",
            absl::StrFormat("version %d was journalled with two contents", it->first));
  }
}

void Checkers::OnSent(const NodeId& from, const NodeId& to, const Message& message) {
  delivery_.OnSent(from, to, message);
  if (const auto* detour = std::get_if<Detour>(&message)) {
    ++detours_;
    NoteLedAround({detour->step, detour->microbatch}, detour->around);
  } else if (const auto* list = std::get_if<VoidList>(&message)) {
    for (const VoidList::Microbatch& key : list->microbatches) NoteLedAround(key, list->to);
  }
}

void Checkers::OnMessage(Instant now, const NodeId& from, const NodeId& to,
                         const Message& message) {
  const std::string wrong = delivery_.OnDelivered(from, to, message);
  if (!wrong.empty()) Violate(now, "delivery_exact", wrong);
  if (const auto* update = std::get_if<PlanUpdate>(&message)) {
    Check(now, to, *update);
  } else {
    std::visit([&](const auto& m) { Check(now, from, m); }, message);
  }
  if (IsPreparation(message)) progress_ = now;
}

void Checkers::Check(Instant now, const NodeId& to, const PlanUpdate& update) {
  heard_plan_[to] = std::max(heard_plan_[to], update.plan->version);
  const auto journalled = plans_.find(update.plan->version);
  if (journalled == plans_.end()) {
    Violate(now, "plan_agreement",
            absl::StrFormat("version %d was sent before it was journalled", update.plan->version));
  } else if (journalled->second != update.plan) {
    Violate(now, "plan_agreement",
            absl::StrFormat("version %d as sent is not what was journalled", update.plan->version));
  } else {
    journalled->second = update.plan;  // the one that all others are sent, too
  }
}

void Checkers::Check(Instant now, const NodeId&, const RoundCommit& commit) {
  const auto journalled = state().commits.find({commit.stage, commit.round});
  if (const auto past = past_commits_.find({commit.stage, commit.round});
      past != past_commits_.end() &&
      std::find(past->second.begin(), past->second.end(), commit) != past->second.end()) {
    return;  // on its way since before the run went back
  }
  const char* wrong = journalled == state().commits.end() ? "was sent before it was journalled"
                      : journalled->second != commit      ? "as sent is not the one journalled"
                                                          : nullptr;
  if (wrong != nullptr) {
    Violate(now, "rounds_atomic",
            absl::StrFormat("stage %d round %d: the commit %s", commit.stage, commit.round, wrong));
  }
}

void Checkers::Check(Instant now, const NodeId& from, const RoundApplied& applied) {
  if (applied.base_digest.IsZero() || options_.liars.contains(from)) return;
  if (rewinds_ > 0 && (!SlotOf(*state().plan, from) || IsDead(*state().plan, from))) return;
  auto& reported = digests_[{applied.stage, applied.round}];
  const bool known = reported.contains(applied.base_digest);
  reported[applied.base_digest].insert(from);
  if (!known && reported.size() > 1) {
    Violate(now, "base_agreement",
            absl::StrFormat("stage %d round %d: %s has base %s, another replica %s", applied.stage,
                            applied.round, from.Short(), applied.base_digest.Short(),
                            reported.begin()->first == applied.base_digest
                                ? reported.rbegin()->first.Short()
                                : reported.begin()->first.Short()));
  }
}

void Checkers::Check(Instant now, const NodeId& from, const Heartbeat& beat) {
  int64_t& step = step_of_[from];
  if (beat.step <= step) return;
  step = beat.step;
  best_step_ = std::max(best_step_, step);
  progress_ = now;
}

void Checkers::OnLife(Instant now, const NodeId& node) {
  delivery_.OnLife(node);
  counted_.erase(node);
  last_counted_.erase(node);
  counted_since_step_.erase(node);
  step_of_.erase(node);
  heard_plan_.erase(node);
  made_.erase(node);
  progress_ = now;
}

void Checkers::OnAccumulated(Instant now, const NodeId& node, int64_t step, int32_t microbatch) {
  ++counted_since_step_[node];
  auto& counted = counted_[node];
  if (!counted.insert({step, microbatch}).second) {
    Violate(now, "microbatch_conservation",
            absl::StrFormat("%s counted microbatch %d of step %d twice", node.Short(), microbatch,
                            step));
  }
  if (!SomePlanLeadsThrough(node, step, microbatch) && !WasLedTo(node, step, microbatch)) {
    Violate(now, "microbatch_conservation",
            absl::StrFormat(
                "%s counted microbatch %d of step %d, which neither a plan nor a detour leads "
                "through it",
                node.Short(), microbatch, step));
  }
  while (counted.begin()->first < step - kStepsRemembered) counted.erase(counted.begin());
  if (WasLedAround(step, microbatch)) return;
  const auto [last, is_first] = last_counted_.try_emplace(node, step, microbatch);
  const std::pair present(step, microbatch);
  // After a death what was sent again comes late.
  if (!is_first && present < last->second && all_alive_) {
    Violate(
        now, "microbatch_conservation",
        absl::StrFormat("%s counted microbatch %d of step %d after microbatch %d of step %d",
                        node.Short(), microbatch, step, last->second.second, last->second.first));
  }
  last->second = present;
}

void Checkers::OnEncoded(Instant now, const NodeId& node, int64_t round, int64_t step) {
  const int64_t wanted = RoundClock(options_.config).Boundary(round);
  if (step != wanted) {
    Violate(now, "rounds_on_time",
            absl::StrFormat("%s encoded round %d after %d steps, its boundary is at %d",
                            node.Short(), round, step, wanted));
  }
}

void Checkers::OnApplied(Instant now, const NodeId& node, int64_t round, int64_t step) {
  const int64_t wanted = RoundClock(options_.config).Due(round);
  if (step != wanted) {
    Violate(now, "rounds_on_time",
            absl::StrFormat("%s landed round %d after %d steps, it is due after %d", node.Short(),
                            round, step, wanted));
  }
}

void Checkers::OnSettled(Instant now, const NodeId& node, int64_t round, double error) {
  if (error <= 1) return;
  Violate(now, "delta_conservation",
          absl::StrFormat("%s: round %d took what its message does not carry, or left it behind: "
                          "%.0f times what rounding may do",
                          node.Short(), round, error));
}

void Checkers::OnStepped(Instant now, const NodeId& node, int64_t step, int32_t microbatches) {
  made_[node] = step;
  CheckHeardOfJoiners(now, node, step);
  // After a death a node may count what was sent again late, in a later step.
  if (state().plan && all_alive_) CheckStepIsWhole(now, node, step, microbatches);
  counted_since_step_[node] = 0;
}

void Checkers::CheckStepIsWhole(Instant now, const NodeId& node, int64_t step,
                                int32_t microbatches) {
  if (microbatches != counted_since_step_[node]) {
    Violate(now, "microbatch_conservation",
            absl::StrFormat("%s closed step %d as if it had counted %d microbatches, it was %d",
                            node.Short(), step, microbatches, counted_since_step_[node]));
  }
  for (const PlannedVisit& visit : VisitsOf(*state().plan, step, node)) {
    const std::pair key(step, visit.microbatch);
    const auto led = led_around_.find(key);
    if (counted_[node].contains(key)) continue;
    if (led != led_around_.end() && led->second.contains(node)) continue;
    Violate(now, "microbatch_conservation",
            absl::StrFormat("%s closed step %d without microbatch %d, which was planned through it",
                            node.Short(), step, visit.microbatch));
  }
}

void Checkers::NoteLedAround(const VoidList::Microbatch& led, const NodeId& around) {
  led_around_[{led.step, led.microbatch}].insert(around);
  while (led_around_.begin()->first.first < best_step_ - kStepsRemembered) {
    led_around_.erase(led_around_.begin());
  }
}

bool Checkers::WasLedAround(int64_t step, int32_t microbatch) const {
  return led_around_.contains({step, microbatch});
}

void Checkers::OnQueue(Instant now, const NodeId& node, int64_t waiting) {
  if (waiting > options_.queue_max) {
    Violate(now, "bounded_queues",
            absl::StrFormat("%s: %d messages wait for one peer, at most %d may", node.Short(),
                            waiting, options_.queue_max));
  }
}

void Checkers::OnTick(Instant now, bool able) {
  const Duration patience =
      std::max(options_.patience, Duration::Seconds(kPatienceSteps * state().predicted_step_s));
  // Up to the step at which the operator paused it a run goes on; from there it need not.
  const auto& paused_at = state().orders.paused_at;
  const bool is_paused = paused_at && best_step_ >= *paused_at;
  if (!able || is_paused || state().exported) {
    progress_ = now;
  } else if (now - progress_ > patience) {
    Violate(now, "liveness",
            absl::StrFormat("no step beyond %d for %.0f s, although enough nodes are up",
                            best_step_, patience.seconds()));
    progress_ = now;
  }
}

// What a data node had under way when it died, or steps of it that its heir had left behind; and
// what was late when the run went back to a checkpoint of later steps, and is not made again.
int64_t Checkers::MicrobatchesLostAtMost() const {
  return lost_to_rewinds_ + data_node_deaths_ * (RoundClock(options_.config).StepsBehind() + 1) *
                                options_.config.pipeline.microbatches_per_step;
}

int64_t Checkers::NotCreditedBelow(int64_t step) const {
  int64_t credited = 0;
  for (const auto& [of, losses] : state().losses)
    credited += of < step ? std::ssize(losses.by_microbatch) : 0;
  return step * options_.config.pipeline.microbatches_per_step - credited;
}

void Checkers::AtEnd(Instant now) {
  CheckBasesAtEnd(now);
  CheckLedgerAtEnd(now);
  audit_.End();
  NoteFindings(now);
}

void Checkers::CheckBasesAtEnd(Instant now) {
  if (!state().plan) return;
  for (const auto& [key, reports] : state().applied) {
    const Digest agreed = *state().AgreedDigest(key.first, key.second);
    for (const auto& [node, report] : reports) {
      if (report.base_digest == agreed || IsDead(*state().plan, node) ||
          !state().nodes.at(node).alive) {
        continue;
      }
      Violate(now, "base_agreement",
              absl::StrFormat("stage %d round %d: %s had another base than most and was never put "
                              "out",
                              key.first, key.second, node.Short()));
    }
  }
}

void Checkers::CheckLedgerAtEnd(Instant now) {
  const int32_t each = options_.config.pipeline.microbatches_per_step;
  const int64_t missing = NotCreditedBelow(options_.config.steps);
  int64_t tokens = 0;
  for (const auto& [step, losses] : state().losses) {
    for (const auto& [microbatch, loss] : losses.by_microbatch) {
      tokens += loss.tokens;
      if (microbatch < 0 || microbatch >= each) {
        Violate(now, "ledger_exact",
                absl::StrFormat("step %d has no microbatch %d", step, microbatch));
      }
    }
  }
  if (missing > MicrobatchesLostAtMost()) {
    Violate(now, "ledger_exact",
            absl::StrFormat("%d microbatches were never credited; by the deaths of data nodes and "
                            "by going back at most %d may be missing",
                            missing, MicrobatchesLostAtMost()));
  }
  if (tokens != state().tokens) {
    Violate(now, "ledger_exact",
            absl::StrFormat("credited microbatches have %d tokens, the ledger says %d", tokens,
                            state().tokens));
  }
}

}  // namespace skerry
