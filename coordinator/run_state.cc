#include "coordinator/run_state.h"

#include "common/status.h"
#include "coordinator/record_json.h"

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
  if (!state.nodes.contains(node)) ++state.ticket_uses[record.ticket];
  state.nodes[node] = std::move(record);
}

absl::Status ApplyCommit(const Json& json, RunState& state) {
  auto commit = json.at("commit").get<RoundCommit>();
  const RunState::StageRound key{commit.stage, commit.round};
  if (commit.round != state.RoundsCommitted(commit.stage)) {
    return DataLoss("journal: round %d of stage %d is committed out of order", commit.round,
                    commit.stage);
  }
  state.commits.emplace(key, std::move(commit));
  return absl::OkStatus();
}

void ApplyLosses(const Json& json, RunState& state) {
  StepLosses& step = state.losses[json.at("step").get<int64_t>()];
  for (const auto& loss : json.at("losses").get<std::vector<MicrobatchLoss>>()) {
    if (step.by_microbatch.emplace(loss.microbatch, loss).second) state.tokens += loss.tokens;
  }
}

absl::Status ApplyParsed(const Json& json, RunState& state) {
  const std::string kind = json.at("kind");
  if (kind == "admitted") {
    ApplyAdmitted(json, state);
  } else if (kind == "link") {
    const auto reading = json.at("reading").get<LinkReading>();
    state.links[{json.at("from").get<NodeId>(), reading.target}] = reading;
  } else if (kind == "plan") {
    auto plan = json.at("plan").get<PipelinePlan>();
    if (state.plan && plan.version <= state.plan->version) {
      return DataLoss("journal: plan %d follows plan %d", plan.version, state.plan->version);
    }
    state.plan = std::move(plan);
    state.predicted_step_s = json.at("predicted_step_s");
    state.lower_bound_s = json.at("lower_bound_s");
  } else if (kind == "commit") {
    return ApplyCommit(json, state);
  } else if (kind == "applied") {
    const auto applied = json.at("applied").get<RoundApplied>();
    const RunState::StageRound key{applied.stage, applied.round};
    state.base_digests.emplace(key, applied.base_digest);
    state.applied[key].emplace(json.at("node").get<NodeId>(), applied);
  } else if (kind == "losses") {
    ApplyLosses(json, state);
  } else if (kind == "life") {
    const auto it = state.nodes.find(json.at("node").get<NodeId>());
    if (it == state.nodes.end()) return DataLoss("journal: life of an unknown node");
    it->second.alive = json.at("alive");
  } else if (kind == "finished") {
    state.finished = true;
  } else if (kind == "exported") {
    state.exported = true;
  } else {
    return DataLoss("journal: unknown kind of record '%s'", kind);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunState::Apply(const std::string& record) {
  try {
    return ApplyParsed(Json::parse(record), *this);
  } catch (const Json::exception& error) {
    return DataLoss("journal: damaged record (%s)", error.what());
  }
}

int64_t RunState::RoundsCommitted(int32_t stage) const {
  const auto next = commits.lower_bound({stage + 1, 0});
  if (next == commits.begin()) return 0;
  const auto last = std::prev(next);
  return last->first.first == stage ? last->first.second + 1 : 0;
}

std::string AdmittedRecord(const NodeId& node, const NodeRecord& record) {
  return Json{{"kind", "admitted"},          {"node", node},
              {"endpoint", record.endpoint}, {"region", record.region},
              {"ticket", record.ticket},     {"device", record.device}}
      .dump();
}
std::string LinkRecord(const NodeId& from, const LinkReading& reading) {
  return Json{{"kind", "link"}, {"from", from}, {"reading", reading}}.dump();
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
std::string LossesRecord(const StepReport& report) {
  return Json{{"kind", "losses"}, {"step", report.step}, {"losses", report.losses}}.dump();
}
std::string LifeRecord(const NodeId& node, bool alive) {
  return Json{{"kind", "life"}, {"node", node}, {"alive", alive}}.dump();
}
std::string MarkRecord(const std::string& kind) {
  return Json{{"kind", kind}}.dump();
}

}  // namespace skerry
