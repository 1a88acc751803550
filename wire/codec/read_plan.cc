#include "wire/codec/read_plan.h"

#include "wire/codec/id_words.h"

namespace skerry {

std::vector<NodeId> ReadIds(ReadChecks& checks, capnp::List<schema::Id256>::Reader list, size_t max,
                            const char* what) {
  std::vector<NodeId> ids(checks.Count(list, max, what));
  for (unsigned i = 0; i < ids.size(); ++i) ids[i] = ReadId<NodeId>(list[i]);
  return ids;
}

Path ReadPath(ReadChecks& checks, schema::Path::Reader r) {
  const auto slots = r.getSlots();
  Path path(checks.Count(slots, limits::kPathSlotsMax, "slots of a path"));
  for (unsigned i = 0; i < path.size(); ++i) {
    path[i] = {checks.NotNegative(slots[i].getStage(), "stage"),
               checks.NotNegative(slots[i].getReplica(), "replica")};
  }
  return path;
}

namespace {

std::vector<Joiner> ReadJoining(ReadChecks& checks, schema::Plan::Reader r) {
  const auto list = r.getJoining();
  std::vector<Joiner> joining(checks.Count(list, limits::kJoiningMax, "joiners"));
  for (unsigned i = 0; i < joining.size(); ++i) {
    Joiner& joiner = joining[i];
    joiner.node = ReadId<NodeId>(list[i].getNode());
    joiner.since = checks.NotNegative(list[i].getSince(), "plan version");
    joiner.base_version = checks.NotNegative(list[i].getBaseVersion(), "base version");
    joiner.from_step = list[i].getFromStep();
    joiner.from_round = list[i].getFromRound();
    if (joiner.from_step < -1 || joiner.from_round < -1) checks.Break("first step", "is negative");
  }
  return joining;
}

// As many as there are replicas, or none.
std::vector<int32_t> ReadShares(ReadChecks& checks, schema::StageAssignment::Reader r) {
  const auto list = r.getShares();
  std::vector<int32_t> shares(checks.Count(list, limits::kReplicasMax, "shares"));
  for (unsigned i = 0; i < shares.size(); ++i) {
    shares[i] = list[i];
    if (shares[i] < 1 || shares[i] > kReplicaShareMax) checks.Break("share", "is out of range");
  }
  if (!shares.empty() && shares.size() != r.getReplicas().size()) {
    checks.Break("shares", "are not one for each replica");
  }
  return shares;
}

std::vector<int32_t> ReadRemade(ReadChecks& checks, schema::StageAssignment::Reader r) {
  const auto list = r.getRemade();
  std::vector<int32_t> remade(checks.Count(list, limits::kRemadeMax, "layers remade"));
  for (unsigned i = 0; i < remade.size(); ++i) {
    remade[i] = list[i];
    const bool is_of = remade[i] >= r.getFirstLayer() && remade[i] < r.getLastLayer();
    if (!is_of) checks.Break("layer remade", "is not of the stage");
    if (i > 0 && remade[i] < remade[i - 1]) checks.Break("layers remade", "are not sorted");
  }
  return remade;
}

// As many as there are replicas, or none.
std::vector<int32_t> ReadCohorts(ReadChecks& checks, schema::StageAssignment::Reader r) {
  const auto list = r.getCohorts();
  std::vector<int32_t> cohorts(checks.Count(list, limits::kReplicasMax, "cohorts"));
  for (unsigned i = 0; i < cohorts.size(); ++i) {
    cohorts[i] = checks.NotNegative(list[i], "cohort");
  }
  if (!cohorts.empty() && cohorts.size() != r.getReplicas().size()) {
    checks.Break("cohorts", "are not one for each replica");
  }
  return cohorts;
}

PlannedSettings ReadSettings(ReadChecks& checks, schema::Settings::Reader r) {
  PlannedSettings settings;
  settings.inner_steps = checks.NotNegative(r.getInnerSteps(), "inner steps");
  settings.overlap_steps = r.getOverlapSteps();
  if (settings.overlap_steps < -1) checks.Break("overlap steps", "is negative");
  settings.has_codec = r.getHasCodec();
  settings.codec = checks.Enumerator(r.getCodec(), DeltaCodec::kLast, "delta codec");
  settings.sequences_per_microbatch =
      checks.NotNegative(r.getSequencesPerMicrobatch(), "sequences per microbatch");
  settings.in_flight = checks.NotNegative(r.getInFlight(), "in flight");
  settings.spreads = r.getSpreads();
  settings.round_s = checks.NotNegative(r.getRoundS(), "seconds of a round");
  settings.step_s = r.getStepS();
  return settings;
}

}  // namespace

PlanUpdate ReadPlan(ReadChecks& checks, schema::Plan::Reader r) {
  PipelinePlan plan;
  plan.version = checks.NotNegative(r.getVersion(), "plan version");
  plan.microbatches_per_step = checks.NotNegative(r.getMicrobatchesPerStep(), "microbatches");
  const auto stages = r.getStages();
  plan.stages.resize(checks.Count(stages, limits::kStagesMax, "stages"));
  size_t slots_in_plan = 0;
  for (unsigned i = 0; i < plan.stages.size(); ++i) {
    slots_in_plan += stages[i].getReplicas().size();
    if (slots_in_plan > limits::kPlanSlotsMax) checks.Break("slots of the plan", "are too many");
    plan.stages[i] = {checks.NotNegative(stages[i].getFirstLayer(), "first layer"),
                      checks.NotNegative(stages[i].getLastLayer(), "last layer"),
                      ReadIds(checks, stages[i].getReplicas(), limits::kReplicasMax, "replicas"),
                      ReadShares(checks, stages[i]),
                      ReadRemade(checks, stages[i]),
                      ReadCohorts(checks, stages[i])};
  }
  const auto paths = r.getPaths();
  plan.paths.resize(checks.Count(paths, limits::kPathsMax, "paths"));
  for (unsigned i = 0; i < plan.paths.size(); ++i) {
    slots_in_plan += paths[i].getSlots().size();
    if (slots_in_plan > limits::kPlanSlotsMax) checks.Break("slots of the plan", "are too many");
    plan.paths[i] = ReadPath(checks, paths[i]);
  }
  plan.dead = ReadIds(checks, r.getDead(), limits::kDeadMax, "dead nodes");
  plan.joining = ReadJoining(checks, r);
  plan.settings = ReadSettings(checks, r.getSettings());
  const auto links = r.getSlowLinks();
  plan.slow_links.resize(checks.Count(links, limits::kSlowLinksMax, "slow links"));
  for (unsigned i = 0; i < plan.slow_links.size(); ++i) {
    plan.slow_links[i] = {ReadId<NodeId>(links[i].getFrom()), ReadId<NodeId>(links[i].getTo())};
  }
  const auto absent = r.getAbsent();
  plan.absent.resize(checks.Count(absent, limits::kAbsentMax, "absences"));
  for (unsigned i = 0; i < plan.absent.size(); ++i) {
    plan.absent[i] = {checks.NotNegative(absent[i].getStage(), "stage"),
                      checks.NotNegative(absent[i].getRound(), "round"),
                      ReadId<NodeId>(absent[i].getNode())};
  }
  const auto start = r.getStart();
  plan.start = {checks.NotNegative(start.getSince(), "plan version"),
                checks.NotNegative(start.getRound(), "round"),
                checks.NotNegative(start.getStep(), "step")};
  if (plan.start.since == 0 && plan.start != PlanStart()) {
    checks.Break("start of the plan", "is of no version");
  }
  return {std::move(plan)};
}

}  // namespace skerry
