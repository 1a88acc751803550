// What the operator orders of the run itself: a pause, going on, a checkpoint at once.

#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Node;
using skerry::testing::ServedRun;
using skerry::testing::SmallRun;

namespace {

using Does = AdmissionOrder::Does;

AdmissionOrder OrderTo(Does does, const std::string& why = "") {
  static int orders = 0;
  AdmissionOrder order;
  order.id = std::to_string(5000 + ++orders);
  order.does = does;
  order.why = why;
  return order;
}

std::string Obey(ServedRun& run, const AdmissionOrder& order) {
  run.Handle([&](CoordinatorActor& a, Context& c) { a.Obey(c, order); });
  return run.LastEvent("order").value("came_of_it", "");
}

Heartbeat At(int64_t step) {
  Heartbeat beat;
  beat.phase = Phase::kTraining;
  beat.step = step;
  return beat;
}

RunConfig LongRun() {
  RunConfig config = SmallRun();
  config.steps = 4'000'000;
  return config;
}

}  // namespace

TEST_CASE("An order of the run is read back as it was written", "[coordinator]") {
  const auto does = GENERATE(Does::kPause, Does::kResume, Does::kCheckpoint);
  AdmissionOrder order = OrderTo(does, does == Does::kPause ? "the power is cut at noon" : "");
  const auto read = ParseOrder(OrderText(order));
  REQUIRE(read.ok());
  CHECK(read->does == does);
  CHECK(read->why == order.why);
  CHECK(read->IsOfRun());
}

TEST_CASE("A pause is at a step ahead of everybody, and all are told the same", "[coordinator]") {
  ServedRun run(LongRun());
  run.Gather();
  run.From(0, At(7));
  run.TakeSends();

  CHECK(Obey(run, OrderTo(Does::kPause, "maintenance")).starts_with("the run pauses at step"));

  REQUIRE(run.state().orders.paused_at);
  const int64_t at = *run.state().orders.paused_at;
  CHECK(at > 7);
  for (int i = 0; i < 4; ++i) {
    REQUIRE(run.SentTo<Heartbeat>(Node(i)).size() == 1);
    CHECK(run.SentTo<Heartbeat>(Node(i)).front().step == at);
    CHECK(run.SentTo<Heartbeat>(Node(i)).front().waiting_for ==
          "run's operator, who paused it: maintenance");
  }
  CHECK(run.Fold() == run.state());
}

TEST_CASE("A pause outlives the coordinator, and who says Hello hears of it and of its end",
          "[coordinator]") {
  ServedRun run(LongRun());
  run.Gather();
  Obey(run, OrderTo(Does::kPause));
  const auto at = run.state().orders.paused_at;

  run.Restart();
  CHECK(run.state().orders.paused_at == at);
  run.From(1, ServedRun::HelloOf(1));
  REQUIRE(run.SentTo<Heartbeat>(Node(1)).size() == 1);
  CHECK(run.SentTo<Heartbeat>(Node(1)).front().step == *at);

  CHECK(Obey(run, OrderTo(Does::kResume)) == "the run goes on");
  run.Restart();
  CHECK_FALSE(run.state().orders.paused_at);
  run.From(1, ServedRun::HelloOf(1));
  REQUIRE(run.SentTo<Heartbeat>(Node(1)).size() == 1);
  CHECK(run.SentTo<Heartbeat>(Node(1)).front().waiting_for.empty());
}

TEST_CASE("Who was faster than the news takes the pause with it", "[coordinator]") {
  ServedRun run(LongRun());
  run.Gather();
  Obey(run, OrderTo(Does::kPause, "maintenance"));
  const int64_t at = *run.state().orders.paused_at;
  run.TakeSends();

  run.From(2, At(at));
  CHECK(*run.state().orders.paused_at == at);
  run.From(2, At(at + 5));

  CHECK(*run.state().orders.paused_at > at + 5);
  CHECK(run.state().orders.why == "maintenance");
  CHECK(run.SentTo<Heartbeat>(Node(0)).back().step == *run.state().orders.paused_at);
}

TEST_CASE("A pause that is ordered twice stays where it is, and keeps or changes its reason",
          "[coordinator]") {
  ServedRun run(LongRun());
  run.Gather();
  Obey(run, OrderTo(Does::kPause, "maintenance"));
  const int64_t at = *run.state().orders.paused_at;
  for (int i = 0; i < 4; ++i) run.From(i, At(at));  // they stand there
  run.TakeSends();

  CHECK(Obey(run, OrderTo(Does::kPause)) ==
        absl::StrFormat("the run pauses at step %d, as was ordered before", at));
  CHECK(*run.state().orders.paused_at == at);
  CHECK(run.state().orders.why == "maintenance");

  Obey(run, OrderTo(Does::kPause, "the power is cut"));
  CHECK(*run.state().orders.paused_at == at);
  const Heartbeat told = run.SentTo<Heartbeat>(Node(0)).back();
  CHECK(told.step == at);
  CHECK(told.waiting_for == "run's operator, who paused it: the power is cut");
}

TEST_CASE("A run is paused when everybody who works is at the step", "[coordinator]") {
  ServedRun run(LongRun());
  run.Gather();
  const auto phase = [&run] {
    run.Pass(2);
    return nlohmann::json::parse(run.status).value("phase", "");
  };
  for (int i = 0; i < 4; ++i) run.From(i, At(1));
  Obey(run, OrderTo(Does::kPause));
  const int64_t at = *run.state().orders.paused_at;
  for (int i = 0; i < 3; ++i) run.From(i, At(at));
  CHECK(phase() == "pausing");
  run.From(3, At(at));
  CHECK(phase() == "paused");
  Obey(run, OrderTo(Does::kResume));
  CHECK(phase() == "training");
}

TEST_CASE("Nobody is late in a run that is paused", "[coordinator]") {
  ServedRun run(LongRun());
  run.Gather();
  Obey(run, OrderTo(Does::kPause));
  const std::vector<NodeId> replicas = run.Live(0);
  const RunState before = run.state();
  RoundLate late;
  late.waited_s = 100;
  late.deltas_of = {replicas[1]};
  run.From(replicas[0], late);
  CHECK(run.state() == before);
  CHECK(run.CountEvents("absent") == 0);
}

TEST_CASE("Orders that cannot be obeyed change nothing and say why", "[coordinator][error]") {
  ServedRun run;
  const auto nothing = [&](const AdmissionOrder& order) {
    const RunOrders before = run.state().orders;
    const std::string said = Obey(run, order);
    CHECK(run.state().orders == before);
    return said.starts_with("nothing was done: ") &&
           said.find("[SK-order-void]") != std::string::npos;
  };
  CHECK(nothing(OrderTo(Does::kResume)));
  CHECK(nothing(OrderTo(Does::kCheckpoint)));
  run.Gather();
  CHECK(nothing(OrderTo(Does::kPause)));  // four steps are over before anybody hears of it
}

TEST_CASE("A run can be paused before it has begun", "[coordinator]") {
  ServedRun run;
  CHECK(Obey(run, OrderTo(Does::kPause)).find("does not begin") != std::string::npos);
  run.Gather();
  CHECK(*run.state().orders.paused_at == 0);
  CHECK(run.context.sends.size() > 0);
}

TEST_CASE("A wanted checkpoint is met by that version or a later one", "[coordinator]") {
  RunState state;
  REQUIRE(state.Apply(WantedRecord(6)).ok());
  CheckpointRecord made;
  made.generation = 1;
  made.round = 5;
  REQUIRE(state.Apply(CheckpointMade(made)).ok());
  CHECK(state.orders.wanted == 6);
  made.generation = 2;
  made.round = 6;
  REQUIRE(state.Apply(CheckpointMade(made)).ok());
  CHECK_FALSE(state.orders.wanted);
}
