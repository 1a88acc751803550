#include "coordinator/audit.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/round_clock.h"
#include "common/status.h"
#include "coordinator/record_json.h"
#include "pipeline/plan/round_shape.h"
#include "pipeline/plan/route.h"

namespace skerry {

using Json = nlohmann::json;

JournalAudit::JournalAudit(RunConfig config) : config_(std::move(config)) {
  config_.outer = EffectiveOuter(config_.outer);
}

void JournalAudit::Find(const std::string& rule, const std::string& what) {
  if (++found_ <= static_cast<int64_t>(kFindingsMax)) findings_.push_back({number_, rule, what});
}

bool JournalAudit::IsStep(int64_t step, int32_t microbatch) const {
  return step >= 0 && step < config_.steps && microbatch >= 0 &&
         microbatch < config_.pipeline.microbatches_per_step;
}

void JournalAudit::Add(const std::string& record) {
  if (!known_.ok()) return;
  ++number_;
  counts_.records = number_;
  const Json json = Json::parse(record, nullptr, false);
  const bool is_object = json.is_object() && json.contains("kind") && json["kind"].is_string();
  const std::string kind = is_object ? json["kind"].get<std::string>() : "";
  // What the fold forgives, since it comes to the same state, is a finding here.
  try {
    if (kind == "losses") BeforeLosses(json);
    if (kind == "written_off") BeforeWrittenOff(json);
    if (kind == "finished" && state_.finished) Find("records", "the run is finished a second time");
  } catch (const Json::exception&) {
    // Apply says what is wrong with it.
  }
  const int64_t plan_before = state_.plan ? state_.plan->version : 0;
  if (const absl::Status status = state_.Apply(record); !status.ok()) {
    if (absl::IsFailedPrecondition(status)) {
      known_ = Annotate(status, absl::StrFormat("journal record %d", number_));
      return;
    }
    return Find("records", ErrorText(status));
  }
  if (state_.plan && state_.plan->version != plan_before) AfterPlan();
  if (kind == "rewind") reports_.clear();  // what came after the checkpoint never was
  if (kind == "resumed") first_step_ = json.at("checkpoint").at("step").get<int64_t>();
  if (kind == "commit") CheckCommit(json.at("commit").get<RoundCommit>());
  if (kind == "applied") {
    const auto applied = json.at("applied").get<RoundApplied>();
    reports_[{applied.stage, applied.round}].push_back(
        {number_, json.at("node").get<NodeId>(), applied.base_digest});
    ++counts_.digests;
  }
}

void JournalAudit::AfterPlan() {
  ++counts_.plans;
  config_ = Settled(std::move(config_), *state_.plan);
  const std::vector<NodeId> now = LiveReplicas(*state_.plan, 0);
  for (const NodeId& node : first_stage_) {
    if (std::find(now.begin(), now.end(), node) == now.end()) ++first_stage_losses_;
  }
  first_stage_ = now;
}

void JournalAudit::BeforeLosses(const Json& json) {
  const auto step = json.at("step").get<int64_t>();
  const auto node = json.at("node").get<NodeId>();
  const auto losses = json.at("losses").get<std::vector<MicrobatchLoss>>();
  if (!state_.nodes.contains(node)) Find("samples", "credit for a node that was never admitted");
  const auto credited = state_.losses.find(step);
  const auto lost = state_.written_off.find(step);
  std::set<int32_t> here;
  for (const MicrobatchLoss& loss : losses) {
    const int32_t m = loss.microbatch;
    if (!IsStep(step, m)) {
      Find("samples", absl::StrFormat("there is no microbatch %d of step %d", m, step));
    }
    const bool again =
        credited != state_.losses.end() && credited->second.by_microbatch.contains(m);
    if (again || !here.insert(m).second) {
      Find("samples", absl::StrFormat("microbatch %d of step %d is credited twice", m, step));
    }
    if (lost != state_.written_off.end() && lost->second.contains(m)) {
      Find("samples",
           absl::StrFormat("microbatch %d of step %d is credited after it was written off", m,
                           step));
    }
  }
}

void JournalAudit::BeforeWrittenOff(const Json& json) {
  const auto step = json.at("step").get<int64_t>();
  const auto microbatches = json.at("microbatches").get<std::vector<int32_t>>();
  const auto credited = state_.losses.find(step);
  const auto lost = state_.written_off.find(step);
  for (const int32_t m : microbatches) {
    if (!IsStep(step, m)) {
      Find("samples", absl::StrFormat("there is no microbatch %d of step %d", m, step));
    }
    if (credited != state_.losses.end() && credited->second.by_microbatch.contains(m)) {
      Find("samples",
           absl::StrFormat("microbatch %d of step %d is written off and credited", m, step));
    }
    if (lost != state_.written_off.end() && lost->second.contains(m)) {
      Find("samples", absl::StrFormat("microbatch %d of step %d is written off twice", m, step));
    }
  }
  // What a stage-0 node can have had under way, or behind it, when it was lost.
  const int64_t at_most = first_stage_losses_ * (RoundClock(config_).StepsBehind() + 1) *
                          config_.pipeline.microbatches_per_step;
  int64_t written_off = static_cast<int64_t>(microbatches.size());
  for (const auto& [of, earlier] : state_.written_off) {
    written_off += static_cast<int64_t>(earlier.size());
  }
  if (written_off > at_most) {
    Find("samples", absl::StrFormat("%d microbatches are written off; with %d stage-0 nodes lost "
                                    "by then it can be %d",
                                    written_off, first_stage_losses_, at_most));
  }
}

// It applied, so it is the next of its stage.
void JournalAudit::CheckCommit(const RoundCommit& commit) {
  const std::string round = absl::StrFormat("round %d of stage %d", commit.round, commit.stage);
  if (!state_.plan || commit.stage < 0 ||
      static_cast<size_t>(commit.stage) >= state_.plan->stages.size()) {
    return Find("rounds", round + " is of no planned stage");
  }
  const PipelinePlan& plan = *state_.plan;
  std::vector<NodeId> due = ParticipantsOf(plan, commit.stage, commit.round);
  std::sort(due.begin(), due.end());
  std::vector<NodeId> took_part;
  for (const Participant& p : commit.participants) took_part.push_back(p.node);
  if (took_part != due) {
    Find("rounds", absl::StrFormat("%s is committed over %d participants that are not the %d of "
                                   "plan %d",
                                   round, took_part.size(), due.size(), plan.version));
  }
  if (commit.round >= RoundClock(config_).rounds()) Find("rounds", round + " is beyond the last");
  for (const Participant& p : commit.participants) {
    ++counts_.contributions;
    const int64_t tokens_max = RoundTokensMax(config_, plan);
    if (p.tokens < 0 || p.tokens > tokens_max) {
      Find("credit", absl::StrFormat("%s credits %s with %d tokens; a round has %d at most", round,
                                     p.node.Short(), p.tokens, tokens_max));
    }
  }
}

void JournalAudit::End() {
  if (state_.finished) {
    EndSamples();
    EndRounds();
  }
  EndDigests();
}

void JournalAudit::EndSamples() {
  number_ = 0;
  const int32_t each = config_.pipeline.microbatches_per_step;
  for (int64_t step = first_step_; step < config_.steps; ++step) {
    const auto losses = state_.losses.find(step);
    const auto lost = state_.written_off.find(step);
    for (int32_t m = 0; m < each; ++m) {
      const bool credited =
          losses != state_.losses.end() && losses->second.by_microbatch.contains(m);
      const bool gone = lost != state_.written_off.end() && lost->second.contains(m);
      if (credited || gone) continue;
      ++counts_.open;
      Find("samples",
           absl::StrFormat("the run is finished, and microbatch %d of step %d is neither "
                           "credited nor written off",
                           m, step));
    }
  }
}

void JournalAudit::EndRounds() {
  number_ = 0;
  if (!state_.plan) return Find("rounds", "the run is finished and was never planned");
  const int64_t want = RoundClock(config_).rounds();
  for (size_t stage = 0; stage < state_.plan->stages.size(); ++stage) {
    if (state_.plan->stages[stage].replicas.size() < 2) continue;  // it has no rounds
    const int64_t rounds = state_.RoundsCommitted(static_cast<int32_t>(stage));
    // A stage that lost all its replicas is skipped from then on.
    if (rounds == want || LiveReplicas(*state_.plan, static_cast<int32_t>(stage)).empty()) continue;
    Find("rounds", absl::StrFormat("the run is finished, and stage %d has %d rounds of %d", stage,
                                   rounds, want));
  }
}

void JournalAudit::EndDigests() {
  for (const auto& [key, reports] : reports_) {
    const Digest agreed = *state_.AgreedDigest(key.first, key.second);
    for (const Report& report : reports) {
      const bool put_out = state_.evicted.contains(report.node) ||
                           state_.admission.pardoned.contains(report.node) || !state_.plan ||
                           IsDead(*state_.plan, report.node) || !state_.nodes.at(report.node).alive;
      if (report.digest == agreed || put_out) continue;
      number_ = report.record;
      Find("digests",
           absl::StrFormat("after round %d of stage %d %s holds %s, the others %s", key.second,
                           key.first, report.node.Short(), report.digest.Short(), agreed.Short()));
    }
  }
}

AuditCounts JournalAudit::counts() const {
  AuditCounts counts = counts_;
  for (const auto& [step, losses] : state_.losses) {
    counts.samples += static_cast<int64_t>(losses.by_microbatch.size());
  }
  for (const auto& [step, microbatches] : state_.written_off) {
    counts.written_off += static_cast<int64_t>(microbatches.size());
  }
  counts.tokens = state_.tokens;
  counts.rounds = static_cast<int64_t>(state_.commits.size());
  return counts;
}

std::string AuditText(const JournalAudit& audit) {
  const AuditCounts counts = audit.counts();
  const RunState& state = audit.state();
  const int64_t all = audit.config().steps * audit.config().pipeline.microbatches_per_step;
  std::string text;
  const auto line = [&text](const char* name, int64_t value, const std::string& about) {
    text += absl::StrFormat("%-16s %12d  %s\n", name, value, about);
  };
  line("records", counts.records,
       state.exported   ? "the run is exported"
       : state.finished ? "the run is finished"
                        : "the run is under way");
  line("samples", counts.samples, absl::StrFormat("microbatches of %d, each credited once", all));
  line("written off", counts.written_off, "died with their stage-0 node, each said once");
  line("tokens", counts.tokens, "");
  line("plans", counts.plans, absl::StrFormat("%d nodes", state.nodes.size()));
  line("rounds", counts.rounds, "each committed once, over one set");
  line("contributions", counts.contributions, "each counted once");
  line("digests", counts.digests, "one for each stage and version");
  for (const AuditFinding& finding : audit.findings()) {
    text += finding.record > 0 ? absl::StrFormat("record %d: ", finding.record) : "journal: ";
    text += finding.rule + ": " + finding.what + "\n";
  }
  const int64_t more = audit.found() - static_cast<int64_t>(audit.findings().size());
  if (more > 0) text += absl::StrFormat("and %d more\n", more);
  text += audit.found() == 0 ? "nothing contradicts\n" : "";
  return text;
}

Json AuditJson(const JournalAudit& audit) {
  const AuditCounts counts = audit.counts();
  Json findings = Json::array();
  for (const AuditFinding& finding : audit.findings()) {
    findings.push_back(
        {{"record", finding.record}, {"rule", finding.rule}, {"what", finding.what}});
  }
  return {{"records", counts.records},
          {"finished", audit.state().finished},
          {"exported", audit.state().exported},
          {"samples", counts.samples},
          {"written_off", counts.written_off},
          {"open", counts.open},
          {"tokens", counts.tokens},
          {"plans", counts.plans},
          {"rounds", counts.rounds},
          {"contributions", counts.contributions},
          {"digests", counts.digests},
          {"found", audit.found()},
          {"findings", findings}};
}

}  // namespace skerry
