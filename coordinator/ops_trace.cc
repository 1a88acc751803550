// Where the time of steps goes, and how nodes stand: for people. Nothing is decided here.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/round_clock.h"
#include "coordinator/border.h"
#include "coordinator/tracing.h"
#include "pipeline/plan/plan_model.h"
#include "pipeline/plan/route.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

constexpr size_t kFleetMax = 128;  // of which a prediction is made
constexpr Duration kStandingEvery = Duration::Seconds(5);
constexpr int64_t kStepSpanUsMax = int64_t{86'400} * 1'000'000;

// No task lasts longer than a day, or began as long before its step.
bool IsSaneTrace(const StepTrace& trace) {
  return std::all_of(trace.tasks.begin(), trace.tasks.end(), [](const TracedTask& task) {
    return task.ready_us > -kStepSpanUsMax && task.start_us > -kStepSpanUsMax &&
           task.ready_us <= task.start_us && task.start_us <= task.end_us &&
           task.end_us < kStepSpanUsMax;
  });
}

}  // namespace

void CoordinatorActor::On(Context& context, const NodeId& from, const StepTrace& message) {
  // Of a plan that was replaced while it was on its way.
  if (state_.plan && message.plan_version < state_.plan->version) return;
  const bool is_known = StageOf(from) && message.step < options_.config.steps &&
                        message.plan_version == state_.plan->version &&
                        IsTraced(message.step, options_.config.outer.inner_steps);
  if (!is_known || !IsSaneTrace(message)) return void(++refused_);
  if (!tracing_) tracing_ = std::make_shared<Tracing>();
  Tracing& tracing = *tracing_;
  if (message.step < tracing.done_below) return;
  Tracing::Step& step = tracing.steps[message.step];
  if (step.tasks + message.tasks.size() > Tracing::kTasksMax) return;
  if (!step.of.try_emplace(from.Short(), message).second) return;
  step.tasks += message.tasks.size();
  while (tracing.steps.size() > Tracing::kStepsMax) {
    tracing.done_below = tracing.steps.begin()->first + 1;
    tracing.steps.erase(tracing.steps.begin());
  }
  size_t expected = 0;
  for (size_t stage = 0; stage < state_.plan->stages.size(); ++stage) {
    for (const NodeId& node : LiveReplicas(*state_.plan, static_cast<int32_t>(stage))) {
      expected += WorksAt(*state_.plan, node, message.step) ? 1 : 0;
    }
  }
  if (step.of.size() >= expected) WriteTrace(context, message.step);
}

// The model of the plan in force, made when the first trace of it is written.
void CoordinatorActor::Predict(Context& context) {
  const PipelinePlan& plan = *state_.plan;
  if (tracing_->prediction && tracing_->prediction->plan_version == plan.version) return;
  auto prediction = std::make_shared<Tracing::Prediction>();
  prediction->plan_version = plan.version;
  tracing_->prediction = prediction;
  std::set<NodeId> nodes;
  for (const StageAssignment& stage : plan.stages) {
    nodes.insert(stage.replicas.begin(), stage.replicas.end());
  }
  if (nodes.size() > kFleetMax) return;
  prediction->plan = plan;
  PlannerInput& input = prediction->input;
  input.config = Settled(options_.config, plan);
  input.nodes.assign(nodes.begin(), nodes.end());
  for (const NodeId& node : nodes) {
    input.devices[node] = ComputingFor(input.config, state_.nodes.at(node).device);
  }
  input.links = links_.Estimate(input.nodes, context.now());
}

namespace {

// The tasks of that step of the model whose microbatches take the same paths.
std::vector<PathTask> PredictedTasks(const PipelinePlan& plan, int64_t step, int32_t steps,
                                     const std::vector<NodeId>& node_of_slot,
                                     const std::vector<TaskRecord>& records) {
  constexpr TracedTask::Kind kKinds[] = {TracedTask::Kind::kBackward, TracedTask::Kind::kLoss,
                                         TracedTask::Kind::kForward, TracedTask::Kind::kStart};
  const int64_t per_step = plan.microbatches_per_step;
  const auto paths = static_cast<int64_t>(plan.paths.size());
  int64_t like = step % steps;
  for (int64_t s = steps - 1; s >= 0; --s) {
    if ((step - s) % paths * per_step % paths == 0) like = s;
  }
  std::vector<PathTask> tasks;
  double first = 1e300;
  for (const TaskRecord& record : records) {
    if (record.microbatch / per_step != like || record.kind == TaskRecord::Kind::kStep) continue;
    tasks.push_back({node_of_slot[static_cast<size_t>(record.slot)].Short(),
                     kKinds[static_cast<int>(record.kind)],
                     static_cast<int32_t>(record.microbatch % per_step), 0, record.hop,
                     record.arrived_s, record.start_s, record.end_s});
    first = std::min(first, record.start_s);
  }
  for (PathTask& task : tasks) task.ready_s -= first, task.start_s -= first, task.end_s -= first;
  return tasks;
}

}  // namespace

void CoordinatorActor::WriteTrace(Context& context, int64_t step) {
  Tracing& tracing = *tracing_;
  auto writing = std::make_shared<Tracing::Writing>();
  writing->step = std::move(tracing.steps[step]);
  writing->number = step;
  writing->plan_version = state_.plan->version;
  writing->predicted_s = state_.predicted_step_s;
  tracing.steps.erase(tracing.steps.begin(), tracing.steps.upper_bound(step));
  tracing.done_below = step + 1;
  const double saved = (context.now() - tracing.saved_until).seconds() * Tracing::kBytesPerSecond;
  tracing.saved_until = context.now();
  tracing.bytes_left = std::min(tracing.bytes_left + saved, Tracing::kBytesBurst);
  if (tracing.bytes_left < 0 || tracing.writing) return;
  Predict(context);
  writing->prediction = tracing.prediction;
  tracing.writing = writing;
  tracing.job =
      context.Submit({"trace", Duration::Millis(1), [writing] {
                        Tracing::Prediction& prediction = *writing->prediction;
                        if (prediction.records.empty() && !prediction.plan.stages.empty()) {
                          const auto model = ModelOf(prediction.input, prediction.plan);
                          if (model.ok()) {
                            const Workload& workload = model->problem.workload;
                            Evaluator evaluator(workload, model->problem.fleet, Lines::kShared);
                            prediction.records = evaluator.Trace(model->placement);
                            prediction.node_of_slot = model->node_of_slot;
                            prediction.steps = workload.steps;
                          }
                        }
                        TracedStep traced;
                        traced.step = writing->number;
                        traced.plan_version = writing->plan_version;
                        traced.predicted_s = writing->predicted_s;
                        traced.tasks = OnOneClock(writing->step.of);
                        if (!prediction.records.empty()) {
                          traced.predicted =
                              PredictedTasks(prediction.plan, traced.step, prediction.steps,
                                             prediction.node_of_slot, prediction.records);
                        }
                        writing->event = EventFields(TraceJson(traced, Tracing::kTasksWritten));
                      }});
}

bool CoordinatorActor::OnTraceJob(Context& context, JobId job) {
  if (!tracing_ || job != tracing_->job || job == 0) return false;
  tracing_->job = 0;
  const auto writing = std::exchange(tracing_->writing, nullptr);
  tracing_->bytes_left -= static_cast<double>(writing->event.size());
  context.Event("trace", writing->event);
  return true;
}

// What its deltas held that were accepted, by the journal: so it is what counts, and it survives
// whoever dies. Where a stage has one replica there are no rounds, and all that it did counts.
int64_t CoordinatorActor::ContributionOf(const NodeId& node) const {
  const auto credit = state_.credits.find(node);
  if (credit != state_.credits.end()) {
    return credit->second.tokens / RoundClock(options_.config).fragments();
  }
  const auto stage = StageOf(node);
  if (!stage || state_.plan->stages[static_cast<size_t>(*stage)].replicas.size() > 1) return 0;
  const auto beat = beats_.find(node);
  return beat == beats_.end() ? 0 : beat->second.tokens;
}

void CoordinatorActor::TellStanding(Context& context, const NodeId& node) {
  if (!state_.plan || !TakesPart(node)) return;
  if (!tracing_) tracing_ = std::make_shared<Tracing>();
  const auto [told, is_first] = tracing_->told_standing.try_emplace(node, context.now());
  if (!is_first && context.now() - told->second < kStandingEvery) return;
  told->second = context.now();
  Standing standing;
  standing.tokens = ContributionOf(node);
  standing.rank = standing.tokens > 0 ? 1 : 0;
  const auto count = [&](const NodeId& other) {
    if (!state_.nodes.contains(other)) return;
    const int64_t tokens = ContributionOf(other);
    standing.tokens_of_all += tokens;
    standing.nodes += tokens > 0 ? 1 : 0;
    standing.rank += standing.rank > 0 && tokens > standing.tokens ? 1 : 0;
  };
  // Of thousands of nodes few have contributed before the first round: those alone at a stage.
  for (const auto& [other, credit] : state_.credits) count(other);
  for (const StageAssignment& stage : state_.plan->stages) {
    const bool is_alone = stage.replicas.size() == 1;
    if (is_alone && !state_.credits.contains(stage.replicas[0])) count(stage.replicas[0]);
  }
  const auto credit = state_.credits.find(node);
  if (credit != state_.credits.end()) standing.rounds = credit->second.rounds;
  standing.step = last_step_ + 1;
  standing.step_s = StepSeconds();
  context.Send(node, standing);
}

}  // namespace skerry
