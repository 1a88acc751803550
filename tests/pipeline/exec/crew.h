// Nodes of a small pipeline on one table: every message is seen, links break and nodes stop on
// demand, time passes a tick at a time. Arithmetic takes no time.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "pipeline/exec/stage_actor.h"
#include "pipeline/plan/route.h"

namespace skerry::testing {

// Eight bytes whatever goes in; knows what was added up.
class CountingWork final : public StageWork {
 public:
  int64_t boundary_bytes() const override { return 8; }
  int32_t microbatch_tokens() const override { return 1; }
  Duration Cost(WorkKind) const override { return {}; }
  WorkResult ForwardFirst(int64_t step, int32_t m) override { return Keep(step, m); }
  WorkResult Forward(int64_t step, int32_t m, const Payload&) override { return Keep(step, m); }
  WorkResult Loss(int64_t step, int32_t m, const Payload&) override { return Keep(step, m); }
  WorkResult Backward(int64_t step, int32_t m, const Payload&) override { return Keep(step, m); }
  void Accumulate(int64_t step, int32_t m) override {
    counted.emplace_back(step, m);
    kept.erase({step, m});
  }
  void Discard(int64_t step, int32_t m) override {
    discarded += static_cast<int>(kept.erase({step, m}));
  }
  std::vector<GradientPart> GradientParts() const override {
    return std::vector<GradientPart>(parts);
  }
  WorkResult RunBackwardPart(int64_t step, int32_t m, const Payload&, size_t) override {
    return Keep(step, m);
  }
  absl::Status TakePart(size_t part, int64_t step, std::span<const int32_t> microbatches,
                        std::span<float>) override {
    if (part + 1 == parts) {
      for (const int32_t m : microbatches) Accumulate(step, m);
    }
    return absl::OkStatus();
  }
  // Too large where it begins so.
  static constexpr uint8_t kTooLarge = 255;
  std::optional<float> SizeOfValues(const Payload& values) const override {
    if (values && View(values)[0] == kTooLarge) return 1000.0f;
    return std::nullopt;
  }
  absl::Status OptimizerStep(int64_t, int32_t) override { return absl::OkStatus(); }
  absl::StatusOr<Payload> EncodeDelta(int64_t) override { return Payload(); }
  absl::Status ApplyRound(int64_t, const std::vector<Accepted>&) override {
    return absl::OkStatus();
  }
  absl::Status CheckDelta(int64_t, const Payload&) const override { return absl::OkStatus(); }
  absl::Status SetTable(int64_t, const Bytes&) override { return absl::OkStatus(); }
  void AdoptBase() override {}
  Digest BaseDigest() override { return {}; }
  Payload BaseParameters() override { return nullptr; }
  absl::StatusOr<Payload> SaveState() override { return Payload(); }
  absl::StatusOr<int64_t> RestoreState(const Payload&) override { return 0; }
  void StartFromBase(int64_t, int64_t) override {}

  std::vector<std::pair<int64_t, int32_t>> counted;
  std::set<std::pair<int64_t, int32_t>> kept;  // stashes
  int discarded = 0;                           // of those
  size_t parts = 1;                            // of a backward pass

 private:
  WorkResult Keep(int64_t step, int32_t m) {
    kept.insert({step, m});
    WorkResult result;
    result.values = MakePayload(Bytes(8));
    result.tokens = 1;
    return result;
  }
};

struct CrewMember final : Context {
  NodeId self() const override { return id; }
  Instant now() const override { return time; }
  Rng& rng() override { return random; }
  void Send(const NodeId&, SharedMessage) override {}
  TimerId StartTimer(Duration) override { return 1; }
  void CancelTimer(TimerId) override {}
  JobId Submit(Job job) override {
    jobs.push_back(std::move(job));
    return ++submitted;
  }
  void Persist(std::string) override {}
  void Event(const std::string&, const std::string&) override {}
  void ConnectPeer(const NodeId&, const std::string&) override {}
  void DisconnectPeer(const NodeId&) override {}
  void Stop(int, const std::string&) override {}

  NodeId id;
  Instant time;
  Rng random{1};
  std::deque<Job> jobs;
  JobId submitted = 0, done = 0;
  CountingWork work;
  std::unique_ptr<StageActor> actor;
  bool stopped = false;
  bool gives = false;  // its gradients away, in parts
  std::vector<GradientsMade> given;
};

class Crew {
 public:
  static constexpr double kFloor = 4;  // seconds; a tick is one
  using Link = std::pair<uint32_t, uint32_t>;

  // Node numbers are those of TestNodeId.
  explicit Crew(const PipelinePlan& plan, bool leads_around = true, int32_t gradients_max = 0,
                bool may_leave_out = true) {
    for (const StageAssignment& stage : plan.stages) {
      for (const NodeId& id : stage.replicas) {
        Add(id, plan, leads_around, gradients_max, may_leave_out);
      }
    }
  }

  StageActor& actor(uint32_t node) { return *At(node).actor; }
  CrewMember& At(uint32_t node) { return *members_.at(TestNodeId(node)); }
  void Break(uint32_t from, uint32_t to) { broken.insert({TestNodeId(from), TestNodeId(to)}); }
  void BreakBoth(uint32_t a, uint32_t b) {
    Break(a, b);
    Break(b, a);
  }

  // Everybody who can begins step `step`; then what can happen happens.
  void Begin(int64_t step) {
    for (auto& [id, member] : members_) {
      const bool may = !member->stopped && !member->actor->StepOpen();
      if (may && member->actor->step() < step) member->actor->BeginStep(*member, step);
    }
    Settle();
  }
  bool IsOver() const {
    return std::none_of(members_.begin(), members_.end(),
                        [](const auto& entry) { return entry.second->actor->StepOpen(); });
  }
  // Of who is not stopped.
  bool IsOverForTheRest() const {
    return std::none_of(members_.begin(), members_.end(), [](const auto& entry) {
      return !entry.second->stopped && entry.second->actor->StepOpen();
    });
  }

  // Seconds pass; those who run tick once in each.
  void Wait(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      for (auto& [id, member] : members_) {
        member->time = member->time + Duration::Seconds(1);
        if (!member->stopped) member->actor->OnTick(*member);
      }
      Settle();
    }
  }
  // Until the step is over for who runs; how long that took, -1: not within `seconds_max`.
  int WaitUntilOver(int seconds_max) {
    for (int waited = 0; waited <= seconds_max; ++waited) {
      if (IsOverForTheRest()) return waited;
      Wait(1);
    }
    return -1;
  }

  void Settle() {
    while (Deliver() || Compute()) {
    }
  }

  void DeliverNext() {
    const Sent sent = std::move(under_way.front());
    under_way.pop_front();
    Hand(sent);
  }
  // One job of this node's device; false: it has none.
  bool ComputeOne(uint32_t node) {
    CrewMember& member = At(node);
    if (member.jobs.empty() && !member.actor->SubmitNext(member)) return false;
    Job job = std::move(member.jobs.front());
    member.jobs.pop_front();
    if (job.run) job.run();
    member.actor->OnJobDone(member, ++member.done, job.modelled);
    return true;
  }

  void Plan(const PipelinePlan& plan) {
    for (auto& [id, member] : members_) {
      if (!member->stopped) member->actor->OnPlan(*member, plan);
    }
    Settle();
  }

  // How often `node` counted the microbatch.
  int64_t Counted(uint32_t node, int64_t step, int32_t microbatch) {
    const auto& counted = At(node).work.counted;
    return std::count(counted.begin(), counted.end(), std::pair(step, microbatch));
  }

  struct Sent {
    NodeId from, to;
    Message message;
  };
  std::vector<Sent> seen;  // all that was delivered, in order
  std::deque<Sent> under_way;
  std::set<std::pair<NodeId, NodeId>> broken;
  std::vector<std::pair<NodeId, Detour>> detours;
  bool coordinator_passes_on = true;

 private:
  void Add(const NodeId& id, const PipelinePlan& plan, bool leads_around, int32_t gradients_max,
           bool may_leave_out) {
    auto member = std::make_unique<CrewMember>();
    CrewMember* self = member.get();
    self->id = id;
    StageActor::Options options;
    options.self = id;
    options.lag_max = 5;
    options.in_flight = 2;
    options.gradients_max = gradients_max;
    options.work = &self->work;
    options.late_floor = Duration::Seconds(leads_around ? kFloor : 0.0);
    options.may_leave_out = may_leave_out;
    options.tick = Duration::Seconds(1);
    options.send = [this, id](Context&, const NodeId& to, Message message) {
      under_way.push_back({id, to, std::move(message)});
    };
    options.submit = [](Context& context, Job job) { return context.Submit(std::move(job)); };
    options.report = [](Context&, const StepReport&) {};
    options.failed = [](Context&, const absl::Status&) {};
    options.gives = [self] { return self->gives; };
    options.give = [self](Context& context, const GradientsMade& made) {
      self->given.push_back(made);
      context.Submit({"take", Duration(), [self, made] {
                        (void)self->work.TakePart(made.part, made.step, made.microbatches, {});
                      }});
    };
    options.pass_on = [this, id](Context&, const Message& message) {
      if (const auto* detour = std::get_if<Detour>(&message)) {
        detours.emplace_back(id, *detour);
        told_.push_back({detour->around, {{detour->step, detour->microbatch}}, 0});
      } else {
        told_.push_back(std::get<VoidList>(message));
      }
    };
    self->actor = std::make_unique<StageActor>(std::move(options), plan);
    members_[id] = std::move(member);
  }

  void Hand(const Sent& sent) {
    CrewMember& to = *members_.at(sent.to);
    seen.push_back(sent);
    if (const auto* a = std::get_if<Activation>(&sent.message)) {
      to.actor->OnActivation(to, sent.from, *a);
    } else if (const auto* g = std::get_if<Gradient>(&sent.message)) {
      to.actor->OnGradient(to, sent.from, *g);
    } else if (const auto* v = std::get_if<MicrobatchVoid>(&sent.message)) {
      to.actor->OnVoid(to, sent.from, *v);
    } else if (const auto* list = std::get_if<VoidList>(&sent.message)) {
      to.actor->OnVoidList(to, sent.from, *list, false);
    } else if (const auto* l = std::get_if<HopLate>(&sent.message)) {
      to.actor->OnHopLate(to, sent.from, *l);
    }
  }

  bool Deliver() {
    std::deque<Sent> held;
    bool any = false;
    while (!under_way.empty()) {
      Sent sent = std::move(under_way.front());
      under_way.pop_front();
      if (broken.contains({sent.from, sent.to}) || members_.at(sent.to)->stopped ||
          members_.at(sent.from)->stopped) {
        held.push_back(std::move(sent));
      } else {
        any = true;
        Hand(sent);
      }
    }
    under_way = std::move(held);
    return PassOn() || any;
  }

  bool PassOn() {
    bool any = false;
    std::vector<VoidList> later;
    for (const VoidList& list : std::exchange(told_, {})) {
      CrewMember& to = *members_.at(list.to);
      if (to.stopped) {
        later.push_back(list);
      } else if (coordinator_passes_on) {
        any = true;
        to.actor->OnVoidList(to, list.to, list, true);
      }
    }
    told_ = std::move(later);
    return any;
  }

  bool Compute() {
    bool any = false;
    for (auto& [id, member] : members_) {
      if (member->stopped) continue;
      if (member->jobs.empty() && !member->actor->SubmitNext(*member)) continue;
      any = true;
      while (!member->jobs.empty()) {
        Job job = std::move(member->jobs.front());
        member->jobs.pop_front();
        if (job.run) job.run();
        member->actor->OnJobDone(*member, ++member->done, job.modelled);
      }
    }
    return any;
  }

  std::map<NodeId, std::unique_ptr<CrewMember>> members_;
  std::vector<VoidList> told_;
};

}  // namespace skerry::testing
