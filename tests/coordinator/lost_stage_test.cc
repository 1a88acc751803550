// A stage that nobody is left of, where there is no checkpoint to go back to.

#include <catch2/catch.hpp>
#include <memory>
#include <set>
#include <string>

#include "coordinator/checkpoint_archive.h"
#include "coordinator/screen.h"
#include "pipeline/plan/round_shape.h"
#include "pipeline/plan/route.h"
#include "tests/coordinator/served_run.h"

using namespace skerry;
using namespace skerry::testing;

namespace {

void LoseStage(ServedRun& run, int32_t stage) {
  for (const NodeId& node : run.Live(stage)) run.From(node, Leave{"gone"});
}

// Of stage 1 one has died and joins again.
struct Joining : ServedRun {
  explicit Joining(const RunConfig& of) : ServedRun(of) { ticket_uses = 5; }

  void Begin() {
    Restart();
    Gather(5);
    replicas = Live(1);
    REQUIRE(replicas.size() == 3);
    for (const NodeId& node : replicas) From(node, BeatOf(node));
    joins = true;
    From(replicas[2], HelloOf(0));
    for (int second = 0; second < 20; ++second) {
      for (int i = 0; i < 5; ++i) From(i, BeatOf(Node(i)));
      Pass(1);
      RunJobs();
    }
    REQUIRE(JoinerOf(*state().plan, replicas[2]) != nullptr);
  }
  Heartbeat BeatOf(const NodeId& node) const {
    Heartbeat beat;
    beat.phase = joins && node == replicas[2] ? Phase::kStandby : Phase::kTraining;
    return beat;
  }

  std::vector<NodeId> replicas;
  bool joins = false;
};

RunConfig FiveWithCheckpoints(OuterReduce reduce) {
  RunConfig config = SmallRun();
  config.steps = 40;
  config.nodes_min = 5;
  config.outer.reduce = reduce;
  config.checkpoint = {1, 2};
  return config;
}

}  // namespace

TEST_CASE(
    "Lost stage: it is skipped where skipping is allowed, and people are told that it is lost",
    "[coordinator][checkpoint]") {
  RunConfig config = SmallRun();
  config.pipeline.skip_ratio = 0.25;
  ServedRun run(config);
  run.Gather();
  LoseStage(run, 1);
  CHECK(!run.context.stopped);
  CHECK(run.state().lost.empty());
  CHECK(run.CountEvents("stage_lost") == 1);
  const std::string action = run.LastEvent("stage_lost")["action"];
  CHECK(action.find("every_rounds") != std::string::npos);
  run.Pass(1);
  const std::string screen = StatusScreen(nlohmann::json::parse(run.status));
  CHECK(screen.find("stage 1 is lost and left out") != std::string::npos);
}

TEST_CASE("Lost stage: without skipping the run ends at once, and says what to do another time",
          "[coordinator][checkpoint]") {
  RunConfig config = SmallRun();
  config.pipeline.skip_ratio = 0;
  ServedRun run(config);
  run.Gather();
  LoseStage(run, 1);
  REQUIRE(run.context.stopped);
  CHECK(run.context.stop_code == 1);
  CHECK(run.context.stop_reason.find("[checkpoint] every_rounds") != std::string::npos);
}

TEST_CASE("Lost stage: the last of the first is waited for also where skipping is allowed",
          "[coordinator][checkpoint]") {
  RunConfig config = SmallRun();
  config.pipeline.skip_ratio = 0.25;
  ServedRun run(config);
  run.Gather();
  const std::vector<NodeId> first = run.Live(0), second = run.Live(1);
  const auto pass = [&](double seconds) {
    for (double passed = 0; passed < seconds; passed += 0.5) {
      for (const NodeId& node : second) run.From(node, Heartbeat{});
      run.Pass(0.5);
    }
  };
  run.From(first[0], Leave{"gone"});
  pass(3 * config.node_silent_s);
  CHECK(!run.context.stopped);
  CHECK(run.CountEvents("awaited") == 1);
  pass(4 * config.node_silent_s);
  CHECK(run.context.stopped);
}

TEST_CASE("Lost stage: without the first the run ends also where skipping is allowed, and says so",
          "[coordinator][checkpoint]") {
  RunConfig config = SmallRun();
  config.pipeline.skip_ratio = 0.25;
  ServedRun run(config);
  run.Gather();
  LoseStage(run, 0);
  REQUIRE(run.context.stopped);
  CHECK(run.context.stop_reason.find("nobody is left of stage 0") != std::string::npos);
  CHECK(run.context.stop_reason.find("waits until one comes back") == std::string::npos);
  CHECK(run.CountEvents("stage_lost") == 0);  // nothing is skipped
}

TEST_CASE("Lost stage: the last who holds one is waited for while it is silent, not taken for dead",
          "[coordinator][checkpoint]") {
  RunConfig config = SmallRun();
  config.pipeline.skip_ratio = 0;
  ServedRun run(config);
  run.Gather();
  const std::vector<NodeId> replicas = run.Live(1);
  REQUIRE(replicas.size() == 2);
  Heartbeat beat;
  beat.phase = Phase::kTraining;
  const auto pass = [&](double seconds, const std::set<NodeId>& silent) {
    for (double passed = 0; passed < seconds; passed += 0.5) {
      for (const int32_t stage : {0, 1}) {
        for (const NodeId& node : run.Live(stage)) {
          if (!silent.contains(node)) run.From(node, beat);
        }
      }
      run.Pass(0.5);
    }
  };
  const double patience = config.node_silent_s;
  pass(1, {});
  run.From(replicas[0], Leave{"gone"});
  pass(3 * patience, {replicas[1]});
  REQUIRE(!run.context.stopped);
  CHECK(run.Live(1) == std::vector<NodeId>{replicas[1]});
  CHECK(run.CountEvents("awaited") == 1);
  CHECK(run.LastEvent("awaited")["node"] == replicas[1].Short());

  SECTION("it comes back") {
    pass(2 * patience, {});
    CHECK(!run.context.stopped);
    pass(2 * patience, {replicas[1]});
    CHECK(run.CountEvents("awaited") == 2);
  }
  SECTION("it does not, for long") {
    pass(4 * patience, {replicas[1]});
    CHECK(run.context.stopped);
    CHECK(run.context.stop_reason.find("[checkpoint] every_rounds") != std::string::npos);
  }
  SECTION("others who are silent meanwhile are not waited for") {
    const NodeId other = run.Live(0).front();
    pass(2 * patience, {replicas[1], other});
    CHECK(!run.context.stopped);
    CHECK(run.Live(0).size() == 1);
  }
  SECTION("it comes back with nothing") {
    run.From(replicas[1], run.HelloOf(0));
    CHECK(run.context.stop_reason.find("[checkpoint] every_rounds") != std::string::npos);
  }
}

TEST_CASE("Lost stage: before the first checkpoint the run goes back to its beginning",
          "[coordinator][checkpoint]") {
  RunConfig config = SmallRun();
  config.checkpoint = {1, 2};
  const auto disk = std::make_shared<CheckpointDisk>();
  CheckpointArchive archive(std::make_unique<MemoryCheckpointFiles>(disk));
  ServedRun run(config);
  run.checkpoints = &archive;
  run.Restart();
  run.Gather();
  const int64_t version = run.state().plan->version;
  LoseStage(run, 1);
  CHECK(run.state().lost == std::set<int32_t>{1});
  CHECK(run.LastEvent("stage_lost")["step"] == 0);
  CHECK(run.state().plan->version == version + 2);  // one for each who left
}

TEST_CASE("Lost stage: with a death that has another one put out nothing is written off",
          "[coordinator][checkpoint]") {
  CheckpointArchive archive(
      std::make_unique<MemoryCheckpointFiles>(std::make_shared<CheckpointDisk>()));
  Joining run(FiveWithCheckpoints(OuterReduce::kAll));
  run.checkpoints = &archive;
  run.Begin();
  const NodeId liar = run.replicas[1];
  run.From(liar, Held(1, 0, liar));
  DeltaHeld other = Held(1, 0, liar);
  other.digest.bytes[9] ^= 1;
  run.From(run.replicas[2], other);  // the joiner's word, looked at when the first one is gone
  CHECK(run.state().lost.empty());

  run.From(run.replicas[0], Leave{"gone"});

  CHECK(run.state().evicted == std::set<NodeId>{liar});
  CHECK(run.state().lost == std::set<int32_t>{1});
  CHECK(run.state().written_off.empty());
}

TEST_CASE("Lost stage: a joiner that can look at the only participant's sum at last has it put out",
          "[coordinator][checkpoint]") {
  CheckpointArchive archive(
      std::make_unique<MemoryCheckpointFiles>(std::make_shared<CheckpointDisk>()));
  Joining run(FiveWithCheckpoints(OuterReduce::kSharded));
  run.checkpoints = &archive;
  run.Begin();
  const NodeId liar = run.replicas[1];
  const NodeId joiner = run.replicas[2];
  run.From(run.replicas[0], Leave{"gone"});
  REQUIRE(ParticipantsOf(*run.state().plan, 1, 0) == std::vector<NodeId>{liar});
  SumsHeld held{1, 0, ShapeOf(*run.state().plan, 1, 0).id, {{liar, 8, {}}}};
  held.sums.front().digest.bytes[3] = 7;
  run.From(liar, held);
  const bool is_frozen = GENERATE(false, true);  // by the joiner's word, which had no stage
  if (is_frozen) run.From(joiner, held);
  CHECK(run.state().commits.contains({1, 0}) == is_frozen);

  held.sums.front() = {liar, 0, {}};
  run.From(joiner, held);

  CHECK(run.state().evicted == std::set<NodeId>{liar});
  CHECK(run.state().lost == std::set<int32_t>{1});
}
