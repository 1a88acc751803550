#include "coordinator/run_state.h"

#include <algorithm>

#include "common/status.h"
#include "coordinator/cohort_listing.h"
#include "coordinator/link_records.h"
#include "coordinator/newer_record.h"
#include "coordinator/record_json.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

void ApplyAdmitted(const Json& json, RunState& state) {
  const auto node = json.at("node").get<NodeId>();
  NodeRecord record;
  record.endpoint = json.at("endpoint");
  record.region = json.at("region");
  record.ticket = json.at("ticket");
  record.device = json.at("device").get<DeviceProfile>();
  record.relays = json.value("relays", false);
  record.declared = json.value("declared", "");
  record.software = json.value("software", "");
  record.process = json.value("process", uint64_t{0});
  // What is declared as before was tested.
  const auto known = state.nodes.find(node);
  const bool is_new = known == state.nodes.end();
  if (!record.declared.empty() && !is_new && known->second.declared == record.declared) {
    record.reach = known->second.reach;
  }
  if (is_new) ++state.ticket_uses[record.ticket];
  state.admission.asked.erase(node);
  state.nodes[node] = std::move(record);
}

// Who is named a joiner although it worked, or although the slot was somebody's who worked.
void NoteMoves(const PipelinePlan& plan, RunState& state) {
  if (!state.plan) return;
  std::set<int32_t> stages;
  for (const Joiner& joiner : plan.joining) {
    const auto to = SlotOf(plan, joiner.node);
    if (joiner.since != plan.version || !to) continue;
    const auto from = SlotOf(*state.plan, joiner.node);
    const bool worked = from && !IsDead(*state.plan, joiner.node);
    if (!worked && IsDead(*state.plan, NodeOf(*state.plan, *to))) continue;
    stages.insert(to->stage);
    if (worked) stages.insert(from->stage);
  }
  for (const int32_t stage : stages) state.moved[stage] = state.RoundsCommitted(stage);
  if (!stages.empty()) ++state.migrations;
}

absl::Status ApplyPlan(const Json& json, RunState& state) {
  auto plan = json.at("plan").get<PipelinePlan>();
  SKERRY_RETURN_IF_ERROR(CheckAllIsRead(json.at("plan"), plan));
  const double predicted_step_s = json.at("predicted_step_s");
  const double lower_bound_s = json.at("lower_bound_s");
  if (state.plan && plan.version <= state.plan->version) {
    return DataLoss("plan %d follows plan %d", plan.version, state.plan->version);
  }
  for (const StageAssignment& stage : plan.stages) {
    for (const NodeId& node : stage.replicas) {
      if (!state.nodes.contains(node)) return DataLoss("the plan names an unknown node");
    }
  }
  NoteMoves(plan, state);
  state.plan = std::move(plan);
  state.predicted_step_s = predicted_step_s;
  state.lower_bound_s = lower_bound_s;
  return absl::OkStatus();
}

void ApplyCheckpoint(const Json& json, RunState& state) {
  const auto made = json.at("checkpoint").get<CheckpointRecord>();
  state.checkpoints[made.generation] = made;
  state.generations = std::max(state.generations, made.generation);
  if (json.at("kind") != "resumed") return state.orders.OnCheckpoint(made.round);
  state.resumed = true;
  state.tokens = made.tokens;
}

// Everybody is dead in it: they start over, and are planned anew.
absl::Status ApplyLost(const Json& json, RunState& state) {
  SKERRY_RETURN_IF_ERROR(ApplyPlan(json, state));
  const auto stages = json.at("stages").get<std::vector<int32_t>>();
  state.lost = {stages.begin(), stages.end()};
  state.finished = false;  // it could not be collected
  return absl::OkStatus();
}

absl::Status ApplyRewind(const Json& json, RunState& state) {
  const auto generation = json.at("generation").get<int64_t>();
  const auto checkpoint = state.checkpoints.find(generation);
  const bool is_anew = generation == 0 && state.checkpoints.empty();
  if (checkpoint == state.checkpoints.end() && !is_anew) {
    return DataLoss("back to a checkpoint not kept");
  }
  const int64_t step = is_anew ? 0 : checkpoint->second.step;
  SKERRY_RETURN_IF_ERROR(ApplyPlan(json, state));
  state.commits.clear();
  state.base_digests.clear();
  state.applied.clear();
  state.hidden = {};
  state.moved.clear();
  state.started.clear();
  const auto first = state.losses.lower_bound(step);
  for (auto it = first; it != state.losses.end(); ++it) {
    for (const auto& [microbatch, loss] : it->second.by_microbatch) {
      state.tokens -= loss.tokens;
      state.rewound_tokens += loss.tokens;
    }
  }
  state.losses.erase(first, state.losses.end());
  state.written_off.erase(state.written_off.lower_bound(step), state.written_off.end());
  // What came after it is of a past that does not count.
  if (!is_anew) state.checkpoints.erase(std::next(checkpoint), state.checkpoints.end());
  state.lost.clear();
  ++state.rewinds;
  // Steps are made again: a pause is before them, and the next version is one that was wanted.
  RunOrders& orders = state.orders;
  if (orders.paused_at) orders.paused_at = step;
  const int64_t next = (is_anew ? 0 : checkpoint->second.round) + 1;
  if (orders.wanted) orders.wanted = std::min(*orders.wanted, next);
  return absl::OkStatus();
}

absl::Status ApplyCommit(const Json& json, RunState& state) {
  auto commit = json.at("commit").get<RoundCommit>();
  const RunState::StageRound key{commit.stage, commit.round};
  if (commit.round != state.RoundsCommitted(commit.stage)) {
    return DataLoss("round %d of stage %d is committed out of order", commit.round, commit.stage);
  }
  for (const Participant& participant : commit.participants)
    CreditRound(participant, state.plan, &state.credits);
  state.commits.emplace(key, std::move(commit));
  return absl::OkStatus();
}

absl::Status ApplyApplied(const Json& json, RunState& state) {
  const auto applied = json.at("applied").get<RoundApplied>();
  const auto node = json.at("node").get<NodeId>();
  const RunState::StageRound key{applied.stage, applied.round};
  const auto commit = state.commits.find(key);
  if (commit == state.commits.end()) {
    return DataLoss("round %d of stage %d is applied before its commit", applied.round,
                    applied.stage);
  }
  for (const NodeId& screened : state.NewlyScreened(applied)) ++state.rounds_screened[screened];
  state.base_digests.emplace(key, applied.base_digest);
  auto& reports = state.applied[key];
  state.hidden.TakeBack(HiddenTimeOf(commit->second, reports));
  reports.emplace(node, applied);
  state.hidden.Add(HiddenTimeOf(commit->second, reports));
  return absl::OkStatus();
}

void ApplyLosses(const Json& json, RunState& state) {
  const auto number = json.at("step").get<int64_t>();
  const auto losses = json.at("losses").get<std::vector<MicrobatchLoss>>();
  json.at("node").get<NodeId>();  // for the audit: whom the credit is due to
  StepLosses& step = state.losses[number];
  for (const MicrobatchLoss& loss : losses) {
    if (step.by_microbatch.emplace(loss.microbatch, loss).second) state.tokens += loss.tokens;
  }
}

void ApplyWrittenOff(const Json& json, RunState& state) {
  auto microbatches = json.at("microbatches").get<std::set<int32_t>>();
  state.written_off[json.at("step").get<int64_t>()].merge(microbatches);
}

// Records about one node that must be known.
absl::Status ApplyToNode(const std::string& kind, const Json& json, RunState& state) {
  const auto node = json.at("node").get<NodeId>();
  const auto it = state.nodes.find(node);
  if (it == state.nodes.end()) return DataLoss("'%s' of an unknown node", kind);
  if (kind == "life") {
    it->second.alive = json.at("alive");
    ++state.lives;
    if (json.value("evicted", false)) {
      state.evicted.insert(node);
      state.admission.banned[node] = json.value("why", "what it said cannot be true");
    }
  } else if (kind == "started") {
    state.started.insert(node);
  } else if (kind == "proof") {
    json.at("check").get<SumCheck>();  // for who asks for evidence
  } else if (kind == "sizes") {
    state.odd[node] = json.at("is");
    if (state.odd[node].empty()) state.odd.erase(node);
  } else if (kind == "reach") {
    Reachability& reach = it->second.reach;
    reach = {node, json.at("seen"), {}};
    for (const Json& one : json.at("tried"))
      reach.tried.push_back({one.at("endpoint"), one.at("answered")});
    it->second.endpoint = ReachableAt(reach);
  } else {
    state.traffic[node] = json.at("traffic").get<Traffic>();
  }
  return absl::OkStatus();
}

absl::Status ApplyParsed(const Json& json, RunState& state) {
  const std::string kind = json.at("kind");
  if (kind == "admitted") {
    ApplyAdmitted(json, state);
  } else if (kind == "asked") {
    state.admission.ApplyAsked(json);
  } else if (kind == "order") {
    SKERRY_RETURN_IF_ERROR(state.admission.ApplyOrder(json.at("order")));
    state.evicted = state.admission.StillOut(std::move(state.evicted));
  } else if (RunOrders::Owns(kind)) {
    state.orders.Apply(json);
  } else if (kind == "link") {
    ApplyLinkRecord(json, state);
  } else if (kind == "line") {
    SKERRY_RETURN_IF_ERROR(ApplyLineRecord(json, state));
  } else if (kind == "plan") {
    return ApplyPlan(json, state);
  } else if (kind == "commit") {
    return ApplyCommit(json, state);
  } else if (kind == "applied") {
    return ApplyApplied(json, state);
  } else if (kind == "losses") {
    ApplyLosses(json, state);
  } else if (kind == "written_off") {
    ApplyWrittenOff(json, state);
  } else if (kind == "life" || kind == "started" || kind == "reach" || kind == "traffic" ||
             kind == "proof" || kind == "sizes") {
    return ApplyToNode(kind, json, state);
  } else if (kind == "checkpoint" || kind == "resumed") {
    ApplyCheckpoint(json, state);
  } else if (kind == "dropped") {
    state.checkpoints.erase(json.at("generation").get<int64_t>());
  } else if (kind == "lost") {
    return ApplyLost(json, state);
  } else if (kind == "rewind") {
    return ApplyRewind(json, state);
  } else if (kind == "finished") {
    state.finished = true;
  } else if (kind == "exported") {
    if (!state.finished) return DataLoss("exported before it was finished");
    state.exported = true;
  } else {
    return WrittenByNewer(absl::StrFormat("unknown kind of record '%s'", kind));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunState::Apply(const std::string& record) {
  try {
    return ApplyParsed(Json::parse(record), *this);
  } catch (const Json::exception& error) {
    return DataLoss("damaged record (%s)", error.what());
  }
}

std::vector<NodeId> RunState::NewlyScreened(const RoundApplied& of) const {
  std::vector<NodeId> screened = of.screened;
  const auto known = applied.find({of.stage, of.round});
  if (known == applied.end()) return screened;
  std::erase_if(screened, [&](const NodeId& node) {
    return std::any_of(known->second.begin(), known->second.end(), [&](const auto& report) {
      const auto& named = report.second.screened;
      return std::find(named.begin(), named.end(), node) != named.end();
    });
  });
  return screened;
}

int64_t RunState::RoundsCommitted(int32_t stage) const {
  const int64_t over = plan ? plan->start.round : 0;
  const auto next = commits.lower_bound({stage + 1, 0});
  if (next == commits.begin()) return over;
  const auto last = std::prev(next);
  return last->first.first == stage ? last->first.second + 1 : over;
}

int64_t RunState::RoundsOfAnyStage() const {
  int64_t rounds = plan ? plan->start.round : 0;
  for (auto at = commits.begin(); at != commits.end();) {
    at = commits.lower_bound({at->first.first + 1, 0});  // of the next stage
    rounds = std::max(rounds, std::prev(at)->first.second + 1);
  }
  return rounds;
}

std::optional<Digest> RunState::AgreedDigest(int32_t stage, int64_t round) const {
  const auto reports = applied.find({stage, round});
  if (reports == applied.end()) return std::nullopt;
  std::map<Digest, size_t> counts;
  for (const auto& [node, report] : reports->second) ++counts[report.base_digest];
  Digest agreed = base_digests.at({stage, round});
  for (const auto& [digest, count] : counts) {
    if (count > counts.at(agreed)) agreed = digest;
  }
  return agreed;
}

void Traffic::OnReport(int64_t now_sent, int64_t now_received) {
  constexpr int64_t kBytesMax = int64_t{1} << 48;  // sums over a fleet cannot overflow
  if (now_sent < sent || now_received < received) {
    ended_sent = std::min(ended_sent + sent, kBytesMax);
    ended_received = std::min(ended_received + received, kBytesMax);
  }
  sent = now_sent;
  received = now_received;
}

std::string AdmittedRecord(const NodeId& node, const NodeRecord& record) {
  Json json = {{"kind", "admitted"},          {"node", node},
               {"endpoint", record.endpoint}, {"region", record.region},
               {"ticket", record.ticket},     {"device", record.device}};
  if (record.relays) json["relays"] = true;
  if (!record.declared.empty()) json["declared"] = record.declared;
  if (!record.software.empty()) json["software"] = record.software;
  if (record.process != 0) json["process"] = record.process;
  return json.dump();
}
std::string ReachRecord(const Reachability& found) {
  Json tried = Json::array();
  for (const ReachTry& one : found.tried)
    tried.push_back({{"endpoint", one.endpoint}, {"answered", one.answered}});
  return Json{{"kind", "reach"}, {"node", found.node}, {"seen", found.seen}, {"tried", tried}}
      .dump();
}
std::string PlanRecord(const PipelinePlan& plan, double predicted_step_s, double lower_bound_s) {
  return Json{{"kind", "plan"},
              {"plan", plan},
              {"predicted_step_s", predicted_step_s},
              {"lower_bound_s", lower_bound_s}}
      .dump();
}
std::string CommitRecord(const RoundCommit& commit) {
  return Json{{"kind", "commit"}, {"commit", commit}}.dump();
}
std::string AppliedRecord(const NodeId& node, const RoundApplied& applied) {
  return Json{{"kind", "applied"}, {"node", node}, {"applied", applied}}.dump();
}
std::string LossesRecord(const NodeId& node, const StepReport& report) {
  return Json{{"kind", "losses"}, {"node", node}, {"step", report.step}, {"losses", report.losses}}
      .dump();
}
std::string WrittenOffRecord(int64_t step, const std::set<int32_t>& microbatches) {
  return Json{{"kind", "written_off"}, {"step", step}, {"microbatches", microbatches}}.dump();
}
std::string LifeRecord(const NodeId& node, bool alive, bool evicted, const std::string& why) {
  Json record = {{"kind", "life"}, {"node", node}, {"alive", alive}};
  if (evicted) record["evicted"] = true;
  if (evicted && !why.empty()) record["why"] = why;
  return record.dump();
}
std::string StartedRecord(const NodeId& node) {
  return Json{{"kind", "started"}, {"node", node}}.dump();
}
std::string SizesRecord(const NodeId& node, const std::string& is, const std::string& told) {
  return Json{{"kind", "sizes"}, {"node", node}, {"is", is}, {"told", told}}.dump();
}
std::string TrafficRecord(const NodeId& node, const Traffic& traffic) {
  return Json{{"kind", "traffic"}, {"node", node}, {"traffic", traffic}}.dump();
}
std::string CheckpointMade(const CheckpointRecord& checkpoint) {
  return Json{{"kind", "checkpoint"}, {"checkpoint", checkpoint}}.dump();
}
std::string CheckpointDropped(int64_t generation) {
  return Json{{"kind", "dropped"}, {"generation", generation}}.dump();
}
std::string ResumedRecord(const CheckpointRecord& checkpoint, const std::string& from) {
  return Json{{"kind", "resumed"}, {"checkpoint", checkpoint}, {"from", from}}.dump();
}
std::string LostRecord(const PipelinePlan& plan, const std::vector<int32_t>& stages) {
  return Json{{"kind", "lost"},
              {"plan", plan},
              {"stages", stages},
              {"predicted_step_s", 0.0},
              {"lower_bound_s", 0.0}}
      .dump();
}
std::string RewindRecord(const std::string& plan_record, int64_t generation) {
  Json record = Json::parse(plan_record);
  record["kind"] = "rewind";
  record["generation"] = generation;
  return record.dump();
}
std::string MarkRecord(const std::string& kind) {
  return Json{{"kind", kind}}.dump();
}

}  // namespace skerry
