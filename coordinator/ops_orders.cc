// What the operator ordered of the run itself (docs/PROTOCOL.md, 46 and 47): a pause at a step that
// nobody has come to yet, and a checkpoint as soon as there can be one.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/round_clock.h"
#include "common/status.h"
#include "coordinator/border.h"
#include "coordinator/checkpointing.h"
#include "coordinator/coordinator_actor.h"
#include "pipeline/plan/plan_model.h"
#include "pipeline/plan/route.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

// What nodes report is so many heartbeats old at most, and a message may take as long again.
constexpr double kNewsHeartbeats = 2;
constexpr double kStepMinS = 1e-3;

}  // namespace

void RunOrders::Apply(const nlohmann::json& record) {
  if (record.at("kind") == "wanted") {
    wanted = record.at("round").get<int64_t>();
    return;
  }
  ++pauses;
  paused_at.reset();
  if (record.contains("at")) paused_at = record.at("at").get<int64_t>();
  why = record.value("why", "");
}

std::string PauseRecord(std::optional<int64_t> at, const std::string& why) {
  nlohmann::json json = {{"kind", "pause"}};
  if (at) json["at"] = *at;
  if (!why.empty()) json["why"] = why;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string WantedRecord(int64_t round) {
  return nlohmann::json{{"kind", "wanted"}, {"round", round}}.dump();
}

nlohmann::json OrdersJson(const RunOrders& orders) {
  nlohmann::json json = {{"at_step", nullptr}, {"why", orders.why}, {"checkpoint_wanted", nullptr}};
  if (orders.paused_at) json["at_step"] = *orders.paused_at;
  if (orders.wanted) json["checkpoint_wanted"] = *orders.wanted;
  return json;
}

// What came of it, for people.
std::string CoordinatorActor::ObeyOfRun(Context& context, const AdmissionOrder& order) {
  using Does = AdmissionOrder::Does;
  if (state_.finished) return "nothing was done: the run is finished [SK-run-over]";
  if (order.does == Does::kPause && !state_.orders.paused_at) return PauseAhead(context, order.why);
  if (order.does == Does::kPause) {
    // At the step that nodes know: a later one would let them train on. What can be new is why.
    const int64_t at = *state_.orders.paused_at;
    if (!order.why.empty() && order.why != state_.orders.why) {
      Record(context, PauseRecord(at, order.why));
      context.Event("paused", EventFields({{"step", at}, {"why", order.why}}));
      for (const NodeId& node : LiveNodes()) TellPause(context, node);
    }
    return at == 0 ? "the run is paused: it does not begin until it is resumed"
                   : absl::StrFormat("the run pauses at step %d, as was ordered before", at);
  }
  if (order.does == Does::kResume) {
    if (!state_.orders.paused_at) return "nothing was done: the run is not paused [SK-order-void]";
    GoOn(context);
    return "the run goes on";
  }
  if (options_.checkpoints == nullptr)
    return "nothing was done: this run keeps no checkpoints [SK-order-void]";
  if (!state_.plan || !state_.lost.empty()) {
    return "nothing was done: the run does not train yet, there is nothing to keep "
           "[SK-order-void]";
  }
  for (size_t i = 0; i < state_.plan->stages.size(); ++i) {
    if (!LiveReplicas(*state_.plan, static_cast<int32_t>(i)).empty()) continue;
    return absl::StrFormat(
        "nothing was done: stage %d is lost and left out, there is no whole model to keep "
        "[SK-order-void]",
        i);
  }
  const RoundClock clock(options_.config);
  const int64_t round = NextCheckpointRound(true);
  if (clock.StartOf(round) >= options_.config.steps) {
    return "nothing was done: the run ends before the next checkpoint could begin "
           "[SK-order-void]";
  }
  Record(context, WantedRecord(round));
  // One that was asked for and not begun is of a later version: it gives way.
  const bool gives_way =
      checkpointing_ && checkpointing_->lost.empty() && checkpointing_->made.round > round &&
      std::none_of(checkpointing_->stages.begin(), checkpointing_->stages.end(),
                   [](const Checkpointing::Stage& stage) { return stage.is_listed; });
  if (gives_way) checkpointing_ = nullptr;
  TendCheckpoint(context);
  const int64_t step = clock.StartOf(round);
  const auto& paused_at = state_.orders.paused_at;
  const bool waits = paused_at && step + options_.config.outer.overlap_steps >= *paused_at;
  return absl::StrFormat("a checkpoint is made of version %d, of step %d%s", round, step,
                         waits ? ", when the run has been resumed" : "");
}

// Far enough ahead that everybody hears of it before they come there: then all stop at the same
// step, and nobody waits for anybody in the middle of one. Rounds that have begun by then end.
std::string CoordinatorActor::PauseAhead(Context& context, const std::string& why) {
  int64_t at = 0;
  if (state_.plan && state_.lost.empty()) {
    const RoundClock clock(options_.config);
    int64_t reached = std::max({last_step_ + 1, state_.plan->start.step,
                                clock.StartOf(state_.plan->start.round), int64_t{0}});
    for (const auto& [node, beat] : beats_) {
      if (!TakesPart(node)) continue;
      // Who joined stands at its first step long before the others are there.
      const Joiner* joiner = JoinerOf(*state_.plan, node);
      if (joiner == nullptr || beat.step > joiner->from_step)
        reached = std::max(reached, beat.step);
    }
    const double news_s = kNewsHeartbeats * options_.config.heartbeat_s;
    const double step_s = StepSeconds() > 0 ? StepSeconds() : state_.predicted_step_s;
    at = reached + 2 + static_cast<int64_t>(std::ceil(news_s / std::max(step_s, kStepMinS)));
    if (state_.orders.wanted) {  // it is made first
      const int64_t begins = clock.StartOf(*state_.orders.wanted);
      at = std::max(at, begins + options_.config.outer.overlap_steps + 1);
    }
    if (at >= options_.config.steps) {
      return "nothing was done: the run ends before a pause could begin [SK-order-void]";
    }
  }
  if (state_.orders.paused_at && *state_.orders.paused_at >= at) at = *state_.orders.paused_at;
  Record(context, PauseRecord(at, why));
  context.Event("paused", EventFields({{"step", at}, {"why", why}}));
  for (const NodeId& node : LiveNodes()) TellPause(context, node);
  if (at == 0) return "the run is paused: it does not begin until it is resumed";
  return absl::StrFormat("the run pauses at step %d", at);
}

void CoordinatorActor::GoOn(Context& context) {
  Record(context, PauseRecord(std::nullopt, ""));
  context.Event("resumed_training", EventFields({{"step", last_step_ + 1}}));
  // Nobody was late meanwhile.
  late_.clear();
  joining_since_.clear();
  held_up_since_.clear();
  throughput_.clear();
  for (const NodeId& node : LiveNodes()) TellPause(context, node);
}

// Who comes back hears of it too, also that it is over.
void CoordinatorActor::TellPause(Context& context, const NodeId& node) const {
  const RunOrders& orders = state_.orders;
  if (orders.pauses == 0) return;
  Heartbeat limit;
  limit.step = orders.paused_at.value_or(0);
  if (orders.paused_at) {
    limit.waiting_for =
        "run's operator, who paused it" + (orders.why.empty() ? "" : ": " + orders.why);
  }
  context.Send(node, limit);
}

// Everybody who works is there.
bool CoordinatorActor::IsAtPause() const {
  const auto& at = state_.orders.paused_at;
  if (!at) return false;
  return std::all_of(beats_.begin(), beats_.end(), [&](const auto& entry) {
    const auto& [node, beat] = entry;
    const bool works = TakesPart(node) && state_.nodes.at(node).alive &&
                       beat.phase != Phase::kCatchingUp && beat.phase != Phase::kFetchingData;
    return !works || beat.step >= *at;
  });
}

// How long steps take now; 0: not known.
double CoordinatorActor::StepSeconds() const {
  if (!state_.plan) return 0;
  if (throughput_.size() > 1) {
    const auto& [from, before] = throughput_.front();
    const auto& [to, after] = throughput_.back();
    const RunConfig config = Settled(options_.config, *state_.plan);
    const auto of_step =
        static_cast<double>(MicrobatchTokens(config)) * state_.plan->microbatches_per_step;
    if (after > before) {
      return (to - from).seconds() * of_step / static_cast<double>(after - before);
    }
  }
  return 0;
}

}  // namespace skerry
