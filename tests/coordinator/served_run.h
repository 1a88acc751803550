// The production coordinator in a fake host, with its journal kept across restarts.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/coordinator_actor.h"
#include "tests/coordinator/fake_context.h"

namespace skerry::testing {

inline NodeId Node(int i) {
  return TestNodeId(static_cast<uint32_t>(i) + 1);
}

// Four nodes, two stages of two replicas; 4 steps of 2 microbatches; a round every 2 steps.
inline RunConfig SmallRun() {
  RunConfig config;
  config.steps = 4;
  config.nodes_min = 4;
  config.model = {
      .vocab = 16, .hidden = 16, .layers = 4, .heads = 2, .kv_heads = 1, .ffn = 24, .context = 8};
  config.outer.inner_steps = 2;
  config.outer.overlap_steps = 0;
  config.pipeline = {.stages = 2,
                     .skip_ratio = 0,
                     .swaps = 0,
                     .microbatches_per_step = 2,
                     .sequences_per_microbatch = 1,
                     .in_flight = 1};
  return config;
}

class CollectedModel final : public ExportSink {
 public:
  absl::Status AddStage(const StageAssignment& stage, bool holds_ends, const Bytes& base) override {
    if (full_disk) return absl::UnavailableError("the disk is full");
    CHECK(holds_ends == (stage.first_layer == 0));
    stages[stage.first_layer] = base;
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Finish() override {
    ++finished;
    return std::string(R"("path":"memory","parameters":1,"bytes":4)");
  }
  std::map<int32_t, Bytes> stages;  // by first layer
  int finished = 0;
  bool full_disk = false;
};

class ServedRun {
 public:
  explicit ServedRun(RunConfig run_config = SmallRun(), bool with_line_tests = false)
      : config(std::move(run_config)), tests_lines(with_line_tests) {
    Start();
  }

  // Carries out one handler; what it persisted is in `journal` before its sends are seen.
  //
  // At handler number `crash_at` the process dies: before its records are durable (`crash_keeps`
  // false) or just after, before anything was sent; then a new process starts from the journal.
  void Handle(const std::function<void(CoordinatorActor&, Context&)>& handler) {
    if (context.stopped) return;
    handler(*actor, context);
    const bool wrote = !context.records.empty();
    if (wrote) ++writes;
    const bool dies = wrote && writes == crash_at;
    if (!dies || crash_keeps) {
      journal.insert(journal.end(), context.records.begin(), context.records.end());
    }
    context.records.clear();
    if (dies) Restart();
  }

  void Restart() {
    const Instant now = context.now();
    context = FakeContext();
    context.AdvanceTo(now);
    ++lives;
    Start();
  }

  void From(const NodeId& node, Message message) {
    Handle([&](CoordinatorActor& a, Context& c) { a.OnMessage(c, node, message); });
  }
  void From(int node, Message message) { From(Node(node), std::move(message)); }

  // Lets `seconds` pass, firing timers in order.
  void Pass(double seconds) {
    const Instant end = context.now() + Duration::Seconds(seconds);
    const int life = lives;
    while (!context.timers.empty() && context.timers.begin()->first <= end && life == lives) {
      const auto [at, timer] = *context.timers.begin();
      context.timers.erase(context.timers.begin());
      context.AdvanceTo(at);
      Handle([id = timer](CoordinatorActor& a, Context& c) { a.OnTimer(c, id); });
    }
    context.AdvanceTo(end);
  }

  void RunJobs() {
    while (!context.jobs.empty()) {
      auto [id, job] = std::move(context.jobs.front());
      context.jobs.erase(context.jobs.begin());
      job.run();
      Handle([job_id = id](CoordinatorActor& a, Context& c) { a.OnJobDone(c, job_id); });
    }
  }

  std::vector<std::pair<NodeId, Message>> TakeSends() { return std::exchange(context.sends, {}); }

  // Messages of one type sent to a node since the last TakeSends.
  template <typename M>
  std::vector<M> SentTo(const NodeId& node) const {
    std::vector<M> found;
    for (const auto& [to, message] : context.sends) {
      if (const M* m = std::get_if<M>(&message); m != nullptr && to == node) found.push_back(*m);
    }
    return found;
  }

  int64_t CountEvents(const std::string& kind) const {
    return std::count_if(context.events.begin(), context.events.end(),
                         [&](const auto& event) { return event.first == kind; });
  }
  // The last event of a kind; null if there was none.
  nlohmann::json LastEvent(const std::string& kind) const {
    nlohmann::json found;
    for (const auto& [k, fields] : context.events) {
      if (k == kind) found = nlohmann::json::parse("{" + fields + "}");
    }
    return found;
  }

  RunState Fold() const {
    RunState folded;
    for (const std::string& record : journal) REQUIRE(folded.Apply(record).ok());
    return folded;
  }
  const RunState& state() const { return actor->state(); }

  // Admits `nodes` nodes, answers every probe, has the plan made.
  void Gather(int nodes = 4) {
    for (int i = 0; i < nodes; ++i) From(i, HelloOf(i));
    AnswerProbes();
    RunJobs();
  }

  static Hello HelloOf(int i) {
    Hello hello;
    hello.ticket = "ticket";
    hello.endpoint = "tcp://10.0.0." + std::to_string(i) + ":1";
    hello.region = i % 2 == 0 ? "east" : "west";
    hello.device = {"cpu", "profile", 10.0, int64_t{1} << 32};
    hello.process = 1;
    return hello;
  }

  void AnswerProbes() {
    Pass(0.1);  // newcomers are told of together
    for (bool asked = true; asked;) {
      asked = false;
      for (const auto& [to, message] : TakeSends()) {
        if (const auto* request = std::get_if<ProbeRequest>(&message)) {
          asked = true;
          From(to, LinkReading{request->target, 0.02, 2e7});
        }
      }
    }
  }

  // Replicas of a stage that are not dead, ascending.
  std::vector<NodeId> Live(int32_t stage) const {
    std::vector<NodeId> live;
    const PipelinePlan& plan = *state().plan;
    for (const NodeId& node : plan.stages[static_cast<size_t>(stage)].replicas) {
      if (!std::binary_search(plan.dead.begin(), plan.dead.end(), node)) live.push_back(node);
    }
    std::sort(live.begin(), live.end());
    return live;
  }

  RunConfig config;
  bool tests_lines;
  FakeContext context;
  std::vector<std::string> journal;
  CollectedModel model;
  CheckpointStore* checkpoints = nullptr;  // from the next life on
  std::string status;                      // the last
  std::unique_ptr<CoordinatorActor> actor;
  int64_t ticket_uses = 4;
  size_t introduces_all_max = 40;  // from the next life on
  int writes = 0;                  // handlers that wrote
  int crash_at = -1;
  bool crash_keeps = false;
  int lives = 1;

 private:
  void Start() {
    CoordinatorOptions options;
    options.config = config;
    options.shards = {{"train-0", Digest{}, 10}};
    options.journal = journal;
    options.verify_ticket = [this](const std::string& text) -> absl::StatusOr<AdmittedTicket> {
      if (text != "ticket") return absl::PermissionDeniedError("not a ticket of this run");
      return AdmittedTicket{"0a0b", ticket_uses};
    };
    options.model = &model;
    options.checkpoints = checkpoints;
    options.introduces_all_max = introduces_all_max;
    options.doubts_uneven = true;
    options.tests_lines = tests_lines;
    options.status = [this](const std::string& json) { status = json; };
    auto created = CoordinatorActor::Create(std::move(options));
    REQUIRE(created.ok());
    actor = *std::move(created);
    actor->OnStart(context);
  }
};

inline DeltaHeld Held(int32_t stage, int64_t round, const NodeId& sender) {
  DeltaHeld held{stage, round, sender, 8, {}};
  held.digest.bytes = sender.bytes;
  return held;
}

inline RoundApplied Applied(int32_t stage, int64_t round, uint8_t digest = 7) {
  RoundApplied applied{stage, round, {}, 1.0, 0.25};
  applied.base_digest.bytes[0] = digest;
  return applied;
}

}  // namespace skerry::testing
