#include "wire/codec/insight_fields.h"

namespace skerry {
namespace {

StepReport ReadStepReport(ReadChecks& checks, schema::StepReport::Reader r) {
  StepReport m;
  m.step = checks.NotNegative(r.getStep(), "step");
  const auto losses = r.getLosses();
  m.losses.resize(checks.Count(losses, limits::kLossesMax, "losses"));
  for (unsigned i = 0; i < m.losses.size(); ++i) {
    m.losses[i] = {checks.NotNegative(losses[i].getMicrobatch(), "microbatch"),
                   checks.NotNegative(losses[i].getTokens(), "tokens"),
                   checks.Finite(losses[i].getLoss(), "loss")};
  }
  return m;
}

StepTrace ReadTrace(ReadChecks& checks, schema::StepTrace::Reader r) {
  StepTrace m;
  m.step = checks.NotNegative(r.getStep(), "step");
  m.plan_version = checks.NotNegative(r.getPlanVersion(), "plan version");
  m.began_us = checks.NotNegative(r.getBeganUs(), "began");
  const auto tasks = r.getTasks();
  m.tasks.resize(checks.Count(tasks, kTracedTasksMax, "traced tasks"));
  for (unsigned i = 0; i < m.tasks.size(); ++i) {
    const auto task = tasks[i];
    m.tasks[i] = {checks.Enumerator(task.getKind(), TracedTask::Kind::kLast, "task"),
                  task.getMicrobatch(),
                  task.getAttempt(),
                  task.getHop(),
                  task.getReadyUs(),
                  task.getStartUs(),
                  task.getEndUs()};
    if (task.getMicrobatch() < -1) checks.Break("microbatch", "is negative");
    checks.NotNegative(task.getHop(), "hop");
    // What came early may be from before the step; nothing ends before it begins.
    if (task.getStartUs() > task.getEndUs()) checks.Break("task", "ends before it begins");
  }
  return m;
}

}  // namespace

Message ReadInsight(ReadChecks& checks, schema::Envelope::Reader e) {
  if (e.isStepReport()) return ReadStepReport(checks, e.getStepReport());
  if (e.isStepTrace()) return ReadTrace(checks, e.getStepTrace());
  const auto r = e.getStanding();
  return Standing{checks.NotNegative(r.getTokens(), "tokens"),
                  checks.NotNegative(r.getTokensOfAll(), "tokens of all"),
                  checks.NotNegative(r.getRank(), "rank"),
                  checks.NotNegative(r.getNodes(), "nodes"),
                  checks.NotNegative(r.getRounds(), "rounds"),
                  checks.NotNegative(r.getStep(), "step"),
                  checks.Finite(r.getStepS(), "step_s")};
}

void WriteInsight(WriteChecks& checks, const StepTrace& trace, schema::StepTrace::Builder b) {
  b.setStep(trace.step);
  b.setPlanVersion(trace.plan_version);
  b.setBeganUs(trace.began_us);
  auto tasks = b.initTasks(checks.Count(trace.tasks, kTracedTasksMax, "traced tasks"));
  for (unsigned i = 0; i < tasks.size(); ++i) {
    const TracedTask& task = trace.tasks[i];
    tasks[i].setKind(static_cast<uint8_t>(task.kind));
    tasks[i].setMicrobatch(task.microbatch);
    tasks[i].setAttempt(task.attempt);
    tasks[i].setHop(task.hop);
    tasks[i].setReadyUs(task.ready_us);
    tasks[i].setStartUs(task.start_us);
    tasks[i].setEndUs(task.end_us);
  }
}

void WriteInsight(WriteChecks& checks, const Standing& standing, schema::Standing::Builder b) {
  b.setTokens(standing.tokens);
  b.setTokensOfAll(standing.tokens_of_all);
  b.setRank(standing.rank);
  b.setNodes(standing.nodes);
  b.setRounds(standing.rounds);
  b.setStep(standing.step);
  b.setStepS(checks.Finite(standing.step_s, "step_s"));
}

}  // namespace skerry
