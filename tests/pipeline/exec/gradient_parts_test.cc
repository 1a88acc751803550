// The last backward pass of a step in a cohort, whose gradients are given away part by part.

#include <catch2/catch.hpp>
#include <variant>

#include "tests/pipeline/exec/crew.h"

using namespace skerry;
using namespace skerry::testing;

namespace {

// Two stages; node 1 is the one that gives, node 2 may stand in for it.
PipelinePlan TwoStages() {
  PipelinePlan plan;
  plan.version = 1;
  plan.microbatches_per_step = 2;
  plan.stages = {{0, 1, {TestNodeId(0)}}, {1, 2, {TestNodeId(1), TestNodeId(2)}}};
  plan.paths = {{{0, 0}, {1, 0}}, {{0, 0}, {1, 0}}};
  return plan;
}

// Node 1 alone, a job at a time.
class Giver {
 public:
  Giver() : crew_(TwoStages()), node_(crew_.At(1)) {
    node_.work.parts = 3;
    node_.gives = true;
    node_.actor->BeginStep(node_, 0);
    for (const int32_t microbatch : {0, 1}) {
      Arrive(microbatch, 0);
      RunAll();
    }
  }

  void Arrive(int32_t microbatch, int32_t attempt) {
    const PipelinePlan plan = TwoStages();
    node_.actor->OnActivation(
        node_, TestNodeId(0),
        Activation{0, microbatch, attempt, 1, 1, PathOf(plan, 0, microbatch), Eight(), {}});
  }
  void GradientOf(int32_t microbatch, int32_t attempt = 0, uint8_t begins = 0) {
    node_.actor->OnGradient(node_, TestNodeId(0),
                            Gradient{0, microbatch, attempt, 1, 1, Eight(begins), {}});
  }
  void Void(int32_t microbatch) {
    node_.actor->OnVoid(node_, TestNodeId(0), MicrobatchVoid{0, microbatch, 0, 1});
  }
  bool RunOne() { return crew_.ComputeOne(1); }
  void RunAll() {
    while (RunOne()) {
    }
  }
  int64_t GradientsSent() const {
    return std::count_if(crew_.under_way.begin(), crew_.under_way.end(), [](const auto& sent) {
      return std::holds_alternative<Gradient>(sent.message);
    });
  }
  int64_t Counted(int32_t microbatch) { return crew_.Counted(1, 0, microbatch); }

  CrewMember& node() { return node_; }
  StageActor& actor() { return *node_.actor; }

 private:
  static Payload Eight(uint8_t begins = 0) {
    Bytes bytes(8);
    bytes[0] = begins;
    return MakePayload(std::move(bytes));
  }

  Crew crew_;
  CrewMember& node_;
};

}  // namespace

TEST_CASE("Parts: the last backward pass of a step gives each away when it is made", "[exec]") {
  Giver giver;
  giver.GradientOf(1);  // not the last: it waits for its turn
  giver.RunAll();
  CHECK(giver.node().given.empty());
  CHECK(giver.GradientsSent() == 1);
  giver.GradientOf(0);
  for (size_t part = 0; part < 3; ++part) {
    CHECK(giver.actor().StepOpen());
    CHECK(giver.node().given.size() == part);
    CHECK(giver.GradientsSent() == 1);
    while (giver.node().given.size() == part && giver.RunOne()) {
    }
    REQUIRE(giver.node().given.size() == part + 1);
    const GradientsMade& made = giver.node().given[part];
    CHECK(made.step == 0);
    CHECK(made.part == part);
    CHECK(made.accumulated == 2);
    CHECK(made.microbatches == std::vector<int32_t>{0, 1});
  }
  CHECK_FALSE(giver.actor().StepOpen());
  CHECK(giver.actor().step_microbatches() == 2);
  CHECK(giver.GradientsSent() == 2);
  giver.RunAll();
  CHECK(giver.Counted(0) == 1);
  CHECK(giver.Counted(1) == 1);
  CHECK(giver.node().work.kept.empty());
  CHECK(giver.node().work.discarded == 0);
}

TEST_CASE("Parts: once one is given its microbatch counts, whatever becomes of the attempt",
          "[exec]") {
  Giver giver;
  giver.GradientOf(1);
  giver.RunAll();
  giver.GradientOf(0);
  while (giver.node().given.empty()) REQUIRE(giver.RunOne());
  giver.Void(0);
  giver.RunAll();
  CHECK(giver.node().given.size() == 3);
  CHECK(giver.node().work.discarded == 0);
  CHECK_FALSE(giver.actor().StepOpen());
  CHECK(giver.GradientsSent() == 1);  // of the void one nobody waits for it

  giver.Arrive(0, 1);
  giver.RunAll();
  giver.GradientOf(0, 1);
  giver.RunAll();
  CHECK(giver.GradientsSent() == 2);
  CHECK(giver.Counted(0) == 1);
  CHECK(giver.actor().step_microbatches() == 2);
  CHECK(giver.node().given.size() == 3);
  CHECK(giver.node().work.kept.empty());
}

TEST_CASE("Parts: nothing is given of an attempt that was void before", "[exec]") {
  Giver giver;
  giver.GradientOf(1);
  giver.RunAll();
  giver.GradientOf(0);
  REQUIRE(giver.actor().SubmitNext(giver.node()));
  giver.Void(0);
  giver.RunAll();
  CHECK(giver.node().given.empty());
  CHECK(giver.actor().StepOpen());
  giver.Arrive(0, 1);
  giver.RunAll();
  giver.GradientOf(0, 1);
  giver.RunAll();
  CHECK(giver.node().given.size() == 3);
  CHECK(giver.Counted(0) == 1);
  CHECK_FALSE(giver.actor().StepOpen());
}

TEST_CASE("Parts: nothing is given of what is refused", "[exec][error]") {
  Giver giver;
  giver.GradientOf(1);
  giver.RunAll();
  giver.GradientOf(0, 0, CountingWork::kTooLarge);
  giver.RunAll();
  CHECK(giver.node().given.empty());
  CHECK(giver.actor().refused() == 1);
  CHECK(giver.actor().StepOpen());
  giver.GradientOf(0);
  giver.RunAll();
  CHECK(giver.node().given.size() == 3);
  CHECK(giver.Counted(0) == 1);
  CHECK_FALSE(giver.actor().StepOpen());
}

TEST_CASE("Parts: where nobody takes them any more the pass ends as any other", "[exec]") {
  Giver giver;
  giver.GradientOf(1);
  giver.RunAll();
  giver.GradientOf(0);
  REQUIRE(giver.actor().SubmitNext(giver.node()));
  giver.node().gives = false;
  giver.RunAll();
  CHECK(giver.node().given.empty());
  CHECK(giver.Counted(0) == 1);
  CHECK(giver.Counted(1) == 1);
  CHECK(giver.actor().step_microbatches() == 2);
  CHECK_FALSE(giver.actor().StepOpen());
}

TEST_CASE("Parts: a death on the way does not bring back an own microbatch that is given",
          "[exec]") {
  Crew crew(TwoStages());
  CrewMember& home = crew.At(0);
  home.work.parts = 3;
  crew.Begin(0);  // all but what ends the step: that node gives nothing yet
  REQUIRE(crew.IsOver());
  home.gives = true;
  for (const uint32_t node : {0U, 1U, 2U}) crew.actor(node).BeginStep(crew.At(node), 1);
  while (home.given.empty()) {
    while (!crew.under_way.empty()) crew.DeliverNext();
    for (const uint32_t node : {1U, 0U}) {
      if (!home.given.empty()) break;
      crew.ComputeOne(node);
    }
  }
  PipelinePlan plan = TwoStages();
  plan.version = 2;
  plan.dead = {TestNodeId(1)};
  home.actor->OnPlan(home, plan);
  while (crew.ComputeOne(0)) {
  }
  CHECK(home.given.size() == 3);
  CHECK_FALSE(home.actor->StepOpen());
  CHECK(crew.Counted(0, 1, 0) == 1);
  CHECK(crew.Counted(0, 1, 1) == 1);
  CHECK(std::none_of(crew.under_way.begin(), crew.under_way.end(), [](const auto& sent) {
    return std::holds_alternative<MicrobatchVoid>(sent.message);
  }));
}
