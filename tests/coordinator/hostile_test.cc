// Messages out of place, of no meaning, or meant to harm change nothing and are counted.

#include <cmath>
#include <limits>

#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Applied;
using skerry::testing::Held;
using skerry::testing::Node;
using skerry::testing::ServedRun;

namespace {

constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
constexpr int64_t kBelow = std::numeric_limits<int64_t>::min();

void ChangesNothing(ServedRun& run, const NodeId& from, const Message& message) {
  INFO(Describe(message));
  const RunState before = run.state();
  const size_t records = run.journal.size();
  const int64_t refused = run.actor->refused();
  run.From(from, message);
  CHECK(run.state() == before);
  CHECK(run.journal.size() == records);
  CHECK(run.actor->refused() == refused + 1);
}

}  // namespace

TEST_CASE("A stranger may say Hello and nothing else", "[coordinator][security]") {
  ServedRun run;
  run.Gather();
  const NodeId stranger = Node(77);
  ChangesNothing(run, stranger, Heartbeat{});
  ChangesNothing(run, stranger, StepReport{0, {{0, 1, 1.0f}}});
  ChangesNothing(run, stranger, Held(1, 0, run.Live(1)[0]));
  ChangesNothing(run, stranger, skerry::Leave{""});
  ChangesNothing(run, stranger, ObjectRequest{"shard/train-0", 0, 1});
  CHECK(run.SentTo<ObjectChunk>(stranger).empty());
}

TEST_CASE("Reports of the wrong stage, of impossible rounds or sizes are refused",
          "[coordinator][security]") {
  ServedRun run;
  run.Gather();
  const NodeId a = run.Live(1)[0], first = run.Live(0)[0];
  ChangesNothing(run, a, StepReport{0, {{0, 1, 1.0f}}});  // not a stage-0 node
  ChangesNothing(run, first, StepReport{-1, {{0, 1, 1.0f}}});
  ChangesNothing(run, first, StepReport{run.config.steps, {{0, 1, 1.0f}}});
  ChangesNothing(run, first, StepReport{0, {{-1, 1, 1.0f}}});
  ChangesNothing(run, first, StepReport{0, {{2, 1, 1.0f}}});
  ChangesNothing(run, first, StepReport{0, {{0, -1, 1.0f}}});
  ChangesNothing(run, first, StepReport{0, {{0, 1, NAN}}});
  ChangesNothing(run, a, Held(0, 0, a));
  ChangesNothing(run, a, Held(-1, 0, a));
  ChangesNothing(run, a, Held(1, 0, first));  // a sender of another stage
  ChangesNothing(run, a, Held(1, 0, Node(77)));
  ChangesNothing(run, a, Held(1, -1, a));
  ChangesNothing(run, a, Held(1, kBelow, a));
  ChangesNothing(run, a, Held(1, kFar, a));
  ChangesNothing(run, a, DeltaHeld{1, 0, a, -1, {}});
  ChangesNothing(run, a, Applied(1, 0));  // not frozen yet
  ChangesNothing(run, a, Applied(1, -1));
  ChangesNothing(run, a, Applied(1, kFar));
  ChangesNothing(run, a, LinkReading{first, 0.1, 1e6});  // nobody asked
  ChangesNothing(run, a, ObjectChunk{"base/1", 0, 4, MakePayload(Bytes(4))});
  ChangesNothing(run, a, PlanUpdate{});
  ChangesNothing(run, a, RoundCommit{});
  ChangesNothing(run, a, Welcome{});
}

TEST_CASE("A negative round does not reach behind a frozen one", "[coordinator][security]") {
  ServedRun run;
  run.Gather();
  for (const NodeId& holder : run.Live(1)) {
    for (const NodeId& sender : run.Live(1)) run.From(holder, Held(1, 0, sender));
  }
  ChangesNothing(run, run.Live(1)[0], Held(1, -1, run.Live(1)[0]));
  Hello hello = ServedRun::HelloOf(0);
  hello.plan_version = 1;
  hello.base_version = kBelow;
  run.From(run.Live(1)[0], hello);
  hello.base_version = kFar;
  run.From(run.Live(1)[0], hello);
}

TEST_CASE("Texts and numbers of a hostile Hello are harmless in journal, events and status",
          "[coordinator][security]") {
  ServedRun run;
  Hello hello = ServedRun::HelloOf(0);
  hello.region = "\xff\"},{\x1b[2J" + std::string(100'000, 'x');
  hello.device.name = "\"";
  hello.device.gflops = NAN;
  hello.device.memory_bytes = kBelow;
  run.From(0, hello);
  Heartbeat beat;
  beat.waiting_for = "\xc3\x28\n";
  beat.busy_s = INFINITY;
  run.From(0, beat);
  run.Pass(1);

  CHECK(run.Fold() == run.state());
  CHECK(run.state().nodes.at(Node(0)).region.size() <= 200);
  CHECK(run.LastEvent("admitted")["device"] == "\"");
  CHECK(nlohmann::json::parse(run.status)["nodes"].size() == 1);
}

TEST_CASE("Whatever nodes say in whatever order, the journal folds to the live state",
          "[coordinator][security]") {
  const auto seed = GENERATE(range(1, 21));
  ServedRun run;
  Rng rng(static_cast<uint64_t>(seed));
  const auto small = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng.Below(static_cast<uint64_t>(high - low + 1)));
  };
  const auto node = [&] { return Node(static_cast<int>(small(0, 5))); };
  const bool planned = seed % 2 == 0;
  if (planned) run.Gather();
  for (int i = 0; i < 400 && !run.context.stopped; ++i) {
    const auto stage = static_cast<int32_t>(small(-1, 2));
    switch (small(0, planned ? 60 : 9)) {
      case 0: {
        Hello hello = ServedRun::HelloOf(static_cast<int>(small(0, 5)));
        hello.plan_version = small(0, 2);
        hello.base_version = small(-1, 3);
        run.From(node(), hello);
        break;
      }
      case 1:
        run.From(node(), LinkReading{node(), 0.01, 1e6});
        break;
      case 2:
        run.Pass(static_cast<double>(small(0, 3)));
        break;
      case 3:
        run.RunJobs();
        break;
      case 4:
        if (small(0, 5) == 0) run.From(node(), skerry::Leave{"x"});
        break;
      case 5:
        if (small(0, 3) == 0) run.Restart();
        break;
      default:
        if (small(0, 3) == 0) {
          const auto step = small(-1, 4);
          run.From(node(), StepReport{step, {{static_cast<int32_t>(small(-1, 2)), 5, 1.0f}}});
        } else if (small(0, 2) == 0) {
          run.From(node(), Applied(stage, small(-1, 2), static_cast<uint8_t>(small(1, 9) / 9)));
        } else {
          const NodeId holder = node();
          run.From(holder, Held(stage, small(-1, 2), small(0, 1) ? holder : node()));
        }
    }
  }
  CHECK(run.Fold() == run.state());
}
