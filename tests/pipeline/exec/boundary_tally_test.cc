#include "pipeline/exec/boundary_tally.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "pipeline/exec/stage_actor.h"
#include "tests/coordinator/fake_context.h"
#include "tests/pipeline/exec/plain_stage.h"

namespace skerry {
namespace {

using testing::FakeContext;
using testing::PayloadOf;
using testing::PlainStage;

float Log2Of(const std::vector<float>& values) {
  return Log2Rms(View(PayloadOf(values)));
}

TEST_CASE("Log2Rms: worked by hand", "[exec]") {
  CHECK(Log2Of({4, -4, 4, -4}) == 2);
  CHECK(Log2Of({3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}) == 0);
  CHECK(Log2Of(std::vector<float>(1000, 0)) == kBoundaryLog2Min);
  CHECK(Log2Of({}) == kBoundaryLog2Min);
  CHECK(Log2Of({1e-38f}) == kBoundaryLog2Min);
  CHECK(Log2Of({3e38f, 3e38f}) == Approx(127.8).epsilon(0.001));
}

TEST_CASE("Log2Rms: one value that is not finite is enough, wherever it is", "[exec]") {
  const float bad = GENERATE(NAN, INFINITY, -INFINITY);
  const size_t at = GENERATE(size_t{0}, size_t{7}, size_t{20});
  std::vector<float> values(21, 0.5f);
  values[at] = bad;
  CHECK(Log2Of(values) == INFINITY);
}

TEST_CASE("BoundaryTally: tells of periods that are over, each once", "[exec]") {
  const NodeId a = TestNodeId(1), b = TestNodeId(2);
  BoundaryTally tally;
  tally.Note(0, a, false, false, 1);
  tally.Note(7, a, false, false, 2);
  tally.Note(7, a, true, true, INFINITY);
  tally.Note(8, b, false, false, -100);
  CHECK(tally.TakeBefore(7).empty());
  const auto first = tally.TakeBefore(9);
  REQUIRE(first.size() == 1);
  CHECK(first[0] == BoundarySizes{0, {{a, false, false, 2, 1.5f}, {a, true, true, 1, 40}}});
  tally.Note(6, a, false, false, 2);  // of one that was told
  const auto second = tally.TakeBefore(100);
  REQUIRE(second.size() == 1);
  CHECK(second[0] == BoundarySizes{8, {{b, false, false, 1, -64}}});
  CHECK(tally.TakeBefore(1000).empty());
}

TEST_CASE("BoundaryTally: holds and tells of so many neighbours and no more", "[exec]") {
  BoundaryTally tally;
  for (uint32_t i = 0; i < 2000; ++i) tally.Note(0, TestNodeId(i), false, false, 1);
  const auto told = tally.TakeBefore(8);
  REQUIRE(told.size() == 1);
  CHECK(told[0].sides.size() == kBoundarySidesMax);
}

const NodeId kFirst = TestNodeId(1), kMiddle = TestNodeId(2), kLast = TestNodeId(3);

// The middle one of three; it adds one to what it is given.
struct Node {
  FakeContext context;
  PlainStage stage{16};
  std::vector<BoundarySizes> told;
  std::vector<std::pair<NodeId, Message>> sent;
  std::optional<absl::Status> failed;
  PipelinePlan plan;
  std::optional<StageActor> actor;

  Node() {
    plan.version = 1;
    plan.microbatches_per_step = 1;
    plan.stages = {{0, 1, {kFirst}}, {1, 2, {kMiddle}}, {2, 3, {kLast}}};
    plan.paths = {{{0, 0}, {1, 0}, {2, 0}}};
    StageActor::Options options;
    options.self = kMiddle;
    options.work = &stage;
    options.send = [this](Context&, const NodeId& to, Message m) { sent.emplace_back(to, m); };
    options.submit = [](Context& c, Job job) { return c.Submit(std::move(job)); };
    options.report = [](Context&, const StepReport&) {};
    options.failed = [this](Context&, const absl::Status& status) { failed = status; };
    options.sizes = [this](Context&, BoundarySizes sizes) { told.push_back(std::move(sizes)); };
    actor.emplace(std::move(options), plan);
  }
  void Work() {
    while (actor->SubmitNext(context)) {
      const auto [id, job] = context.jobs.back();
      job.run();
      actor->OnJobDone(context, id, job.modelled);
    }
  }
  void Activate(int64_t step, float value) {
    actor->OnActivation(context, kFirst,
                        {step, 0, 0, 1, 1, plan.paths[0], PayloadOf(std::vector<float>(16, value)),
                         DeltaCodec::kNone});
    Work();
  }
  void Return(int64_t step, float value) {
    actor->OnGradient(
        context, kLast,
        {step, 0, 0, 1, 1, PayloadOf(std::vector<float>(16, value)), DeltaCodec::kNone});
    Work();
  }
};

TEST_CASE("Sizes: what came and what went of eight steps, by neighbour", "[exec]") {
  Node node;
  for (int64_t step = 0; step <= 8; ++step) {
    CHECK(node.told.empty());
    node.actor->BeginStep(node.context, step);
    node.Activate(step, 1);  // 2 goes on
    node.Return(step, 3);    // 4 goes back
  }
  REQUIRE(node.told.size() == 1);
  const float log2_3 = std::log2(3.0f);
  CHECK(node.told[0].first_step == 0);
  CHECK(node.told[0].sides == std::vector<BoundarySide>{{kFirst, false, false, 8, 0},
                                                        {kFirst, true, true, 8, 2},
                                                        {kLast, false, true, 8, 1},
                                                        {kLast, true, false, 8, log2_3}});
}

TEST_CASE("Sizes: what is not finite, or absurd, is as if it had not come", "[exec][error]") {
  const float bad = GENERATE(NAN, INFINITY, 1e30f);
  Node node;
  node.actor->BeginStep(node.context, 0);
  node.Activate(0, bad);
  CHECK(node.actor->refused() == 1);
  CHECK(node.sent.empty());
  node.Activate(0, 1);
  CHECK(node.sent.size() == 1);
  node.Return(0, bad);
  CHECK(node.actor->refused() == 2);
  CHECK(node.sent.size() == 1);
  node.Return(0, 3);
  CHECK(node.sent.size() == 2);
  CHECK(node.stage.inputs.size() == 2);
  CHECK_FALSE(node.failed);
  CHECK_FALSE(node.actor->StepOpen());
}

}  // namespace
}  // namespace skerry
