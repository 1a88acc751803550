// Slow links from the inside of one node: the middle one of three, whose link to the last is slow.

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <optional>

#include "compression/boundary_code.h"
#include "pipeline/exec/stage_actor.h"
#include "tests/coordinator/fake_context.h"
#include "tests/pipeline/exec/plain_stage.h"

namespace skerry {
namespace {

using testing::FakeContext;
using testing::FloatsOf;
using testing::PayloadOf;
using testing::PlainStage;

constexpr size_t kFloats = 300;
const NodeId kFirst = TestNodeId(1), kMiddle = TestNodeId(2), kLast = TestNodeId(3);

PipelinePlan ThreeStages() {
  PipelinePlan plan;
  plan.version = 1;
  plan.microbatches_per_step = 1;
  plan.stages = {{0, 1, {kFirst}}, {1, 2, {kMiddle}}, {2, 3, {kLast}}};
  plan.paths = {{{0, 0}, {1, 0}, {2, 0}}};
  plan.slow_links = {{kMiddle, kLast}};
  return plan;
}

struct Node {
  FakeContext context;
  PlainStage stage{kFloats};
  std::vector<std::pair<NodeId, Message>> sent;
  std::optional<absl::Status> failed;
  StageActor actor;

  explicit Node(DeltaCodec codec, const PipelinePlan& plan = ThreeStages())
      : actor(OptionsFor(codec), plan) {
    actor.BeginStep(context, 0);
  }
  StageActor::Options OptionsFor(DeltaCodec codec) {
    StageActor::Options options;
    options.self = kMiddle;
    options.slow_link_codec = codec;
    options.work = &stage;
    options.send = [this](Context&, const NodeId& to, Message m) { sent.emplace_back(to, m); };
    options.submit = [](Context& c, Job job) { return c.Submit(std::move(job)); };
    options.report = [](Context&, const StepReport&) {};
    options.failed = [this](Context&, const absl::Status& status) { failed = status; };
    return options;
  }
  // Everything the device has to do.
  void Work() {
    while (actor.SubmitNext(context)) {
      const auto [id, job] = context.jobs.back();
      job.run();
      actor.OnJobDone(context, id, job.modelled);
    }
  }
  void Receive(const Payload& values, DeltaCodec codec) {
    actor.OnActivation(context, kFirst,
                       Activation{0, 0, 0, 1, 1, ThreeStages().paths[0], values, codec});
    Work();
  }
};

Payload Encoded(DeltaCodec codec, const std::vector<float>& values) {
  Bytes bytes;
  CHECK(EncodeBoundaryValues(codec, values, &bytes).ok());
  return MakePayload(std::move(bytes));
}

TEST_CASE("Slow links: what goes over one is encoded, what goes elsewhere is not", "[exec]") {
  const DeltaCodec codec = GENERATE(DeltaCodec::kInt8, DeltaCodec::kBf16);
  Node node(codec);
  node.Receive(PayloadOf(std::vector<float>(kFloats, 0.3f)), DeltaCodec::kNone);
  REQUIRE(node.sent.size() == 1);
  const auto& activation = std::get<Activation>(node.sent[0].second);
  CHECK(node.sent[0].first == kLast);
  CHECK(activation.codec == codec);
  CHECK(SizeOf(activation.values) == BoundaryCodeSize(codec, kFloats));
  std::vector<float> values(kFloats);
  REQUIRE(DecodeBoundaryValues(codec, View(activation.values), values).ok());
  CHECK(values[7] == Approx(1.3).epsilon(0.01));

  // The gradient comes over the slow link's other direction, which is not listed, and goes back
  // plain.
  node.actor.OnGradient(node.context, kLast,
                        Gradient{0, 0, 0, 1, 1, PayloadOf(values), DeltaCodec::kNone});
  node.Work();
  const auto& gradient = std::get<Gradient>(node.sent.at(1).second);
  CHECK(gradient.codec == DeltaCodec::kNone);
  CHECK(SizeOf(gradient.values) == node.stage.boundary_bytes());
  CHECK(node.stage.accumulated == 0);  // submitted to run after the handlers
}

TEST_CASE("Slow links: the pass computes with what the message decodes to", "[exec]") {
  Node node(DeltaCodec::kInt8);
  std::vector<float> values(kFloats, 0.3f);
  values[5] = 100;
  const Payload message = Encoded(DeltaCodec::kInt8, values);
  std::vector<float> decoded(kFloats);
  REQUIRE(DecodeBoundaryValues(DeltaCodec::kInt8, View(message), decoded).ok());
  node.Receive(message, DeltaCodec::kInt8);
  REQUIRE(node.stage.inputs.size() == 1);
  CHECK(node.stage.inputs[0] == decoded);
  CHECK(decoded != values);
}

TEST_CASE("Slow links: another codec than the run's, or another size, is refused on arrival",
          "[exec][error]") {
  const std::vector<float> values(kFloats, 0.3f);
  SECTION("the run has no codec") {
    Node node(DeltaCodec::kNone);
    node.Receive(Encoded(DeltaCodec::kInt8, values), DeltaCodec::kInt8);
    CHECK(node.actor.refused() == 1);
    CHECK(node.sent.empty());
  }
  SECTION("the run's is another") {
    Node node(DeltaCodec::kInt8);
    node.Receive(Encoded(DeltaCodec::kBf16, values), DeltaCodec::kBf16);
    node.Receive(PayloadOf(values), DeltaCodec::kTopK);
    CHECK(node.actor.refused() == 2);
    CHECK(node.sent.empty());
  }
  SECTION("the size is not that of the codec named") {
    Node node(DeltaCodec::kInt8);
    node.Receive(Encoded(DeltaCodec::kInt8, values), DeltaCodec::kNone);
    node.Receive(PayloadOf(values), DeltaCodec::kInt8);
    Bytes longer = *Encoded(DeltaCodec::kInt8, values);
    longer.push_back(0);
    node.Receive(MakePayload(longer), DeltaCodec::kInt8);
    CHECK(node.actor.refused() == 3);
    CHECK(node.sent.empty());
  }
}

TEST_CASE("Slow links: bytes that decode to nothing are as if they had not come", "[exec][error]") {
  Node node(DeltaCodec::kInt8);
  const std::vector<float> values(kFloats, 0.3f);
  Bytes broken = *Encoded(DeltaCodec::kInt8, values);
  broken[broken.size() - 1] = 255;
  node.Receive(MakePayload(broken), DeltaCodec::kInt8);
  CHECK(node.actor.refused() == 1);
  CHECK(node.sent.empty());
  CHECK_FALSE(node.failed);
  CHECK(node.stage.inputs.empty());

  node.Receive(Encoded(DeltaCodec::kInt8, values), DeltaCodec::kInt8);  // the right one counts
  CHECK(node.sent.size() == 1);
}

TEST_CASE("Slow links: who makes what is not finite of what is says so, and sends nothing",
          "[exec][error]") {
  Node node(GENERATE(DeltaCodec::kInt8, DeltaCodec::kNone));
  node.stage.adds = std::numeric_limits<float>::infinity();
  node.Receive(PayloadOf(std::vector<float>(kFloats, 0.3f)), DeltaCodec::kNone);
  CHECK(node.sent.empty());
  CHECK(node.actor.refused() == 0);
  REQUIRE(node.failed);
  CHECK(absl::IsFailedPrecondition(*node.failed));
}

TEST_CASE("Slow links: a payload that is hollow changes its size only", "[exec]") {
  const PlainStage stage(kFloats);
  const Payload hollow = MakeHollowPayload({1, 2, 3}, stage.boundary_bytes());
  const auto encoded = stage.EncodeBoundary(DeltaCodec::kBf16, hollow);
  REQUIRE(encoded.ok());
  CHECK(encoded->size() == stage.EncodedBoundaryBytes(DeltaCodec::kBf16));
  CHECK(**encoded == Bytes{1, 2, 3});
  const auto decoded = stage.DecodeBoundary(DeltaCodec::kBf16, *encoded);
  REQUIRE(decoded.ok());
  CHECK(decoded->size() == stage.boundary_bytes());
}

// The void goes from the first node to this one, the next attempt over other nodes: any order.
TEST_CASE("A new attempt that is here before the void of the one before takes its place",
          "[exec]") {
  Node node(DeltaCodec::kNone);
  const Payload values = PayloadOf(std::vector<float>(kFloats, 1.0f));
  const auto attempt = [&](int32_t number) {
    node.actor.OnActivation(
        node.context, kFirst,
        Activation{0, 0, number, 1, 1, ThreeStages().paths[0], values, DeltaCodec::kNone});
  };
  const auto discards = [&] {
    return std::count_if(node.context.jobs.begin(), node.context.jobs.end(),
                         [](const auto& job) { return job.second.name == "discard"; });
  };
  attempt(0);
  node.Work();
  REQUIRE(node.sent.size() == 1);
  attempt(1);
  CHECK(discards() == 1);  // the device forgets what it kept for the way back
  node.Work();
  REQUIRE(node.sent.size() == 2);
  CHECK(std::get<Activation>(node.sent[1].second).attempt == 1);

  attempt(0);
  node.actor.OnVoid(node.context, kFirst, {0, 0, 0, 1});
  CHECK(node.actor.refused() == 2);
  CHECK(discards() == 1);
  node.actor.OnGradient(node.context, kLast, Gradient{0, 0, 1, 1, 1, values, DeltaCodec::kNone});
  node.Work();
  REQUIRE(node.sent.size() == 3);
  CHECK(std::get<Gradient>(node.sent[2].second).attempt == 1);
}

}  // namespace
}  // namespace skerry
