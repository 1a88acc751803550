// A backward pass in parts, whose gradients are taken one part after the other.
#include "model/backward_parts.h"

#include "tests/model/lone_stage.h"

namespace skerry {
namespace {

constexpr int32_t kMicrobatches = 4;

struct Case {
  TeamStage stage;
  size_t devices;
  DType compute;
};

class Stage : public LoneStage {
 public:
  explicit Stage(const Case& of) : LoneStage(TinyRun(), of.stage.holds_ends) {
    config_.model.ffn = 22;  // two devices may share it
    config_.model.layers = std::max(config_.model.layers, of.stage.last_layer);
    Have(StageTeam::Create(config_, of.stage, Devices(of.devices, of.compute)));
  }
  size_t values() { return static_cast<size_t>(team().layout().size()); }
};

TEST_CASE("Parts: runs of layers, from the last to the first, that share out all values",
          "[model]") {
  TransformerConfig model = TinyRun().model;
  const int32_t layers = GENERATE(1, 2, 5, 24);
  const int64_t least = GENERATE(int64_t{1}, int64_t{5000}, kBackwardPartMin);
  model.layers = layers + 2;
  for (const bool holds_ends : {false, true}) {
    const auto layout = ParameterLayout::ForStage(model, 2, 2 + layers, holds_ends);
    const auto parts = BackwardParts(layout, 2, 2 + layers, least);
    REQUIRE_FALSE(parts.empty());
    CHECK(std::ssize(parts) <= std::min<int64_t>(layers, kBackwardPartsMax));
    int64_t end = layout.size();
    int32_t above = 2 + layers;
    for (const BackwardPart& part : parts) {
      CHECK(part.offset + part.size == end);
      CHECK(part.down_to < above);
      if (part.offset > 0) CHECK(part.size >= least);
      end = part.offset;
      above = part.down_to;
    }
    CHECK(end == 0);
    CHECK(above == 2);
    if (least == 1 && layers > 1) CHECK(parts.size() > 1);
  }
  const auto layout = ParameterLayout::ForStage(model, 2, 2 + layers, false);
  for (const BackwardPart& part : BackwardParts(layout, 2, 2 + layers, least, 2))
    CHECK(part.down_to % 2 == 0);
  const auto ends = BackwardParts(ParameterLayout::ForStage(model, 0, 0, true), 0, 0);
  CHECK(ends.size() == 1);  // a stage of no layers
}

TEST_CASE("Parts: cut further they share out the same, with the same ends among them", "[model]") {
  TransformerConfig model = TinyRun().model;
  const int32_t layers = GENERATE(1, 5, 24, 90);
  const int64_t least = GENERATE(int64_t{1}, int64_t{5000}, kBackwardPartMin);
  const int32_t ladder = GENERATE(0, 2);
  model.layers = layers + 2;
  for (const bool holds_ends : {false, true}) {
    const auto layout = ParameterLayout::ForStage(model, 2, 2 + layers, holds_ends);
    const auto parts = BackwardParts(layout, 2, 2 + layers, least, ladder);
    const auto cuts = BackwardCuts(parts, layout, 2 + layers, least, ladder);
    CHECK(std::ssize(cuts) <= kBackwardCutsMax + std::ssize(parts));
    int64_t end = layout.size();
    auto part = parts.begin();
    for (const BackwardPart& cut : cuts) {
      CHECK(cut.offset + cut.size == end);
      CHECK(cut.offset >= part->offset);
      if (ladder > 0) CHECK(cut.down_to % ladder == 0);
      if (cut.offset == part->offset) CHECK(cut.down_to == (part++)->down_to);
      end = cut.offset;
    }
    CHECK(part == parts.end());
    CHECK(end == 0);
    if (least == 1 && layers == 24 && ladder == 0) CHECK(std::ssize(cuts) == layers);
  }
}

TEST_CASE("Parts: taken one by one they are the gradients of a pass in one go, bit for bit",
          "[model]") {
  constexpr auto kSequences = DeviceSplit::kSequences;
  const Case of = GENERATE(Case{{0, 3, true, 0, kSequences, 1}, 1, DType::kFloat32},
                           Case{{2, 5, false, 1, kSequences, 1}, 1, DType::kFloat32},
                           Case{{2, 5, false, 0, kSequences, 1}, 2, DType::kFloat32},
                           Case{{0, 3, true, 1, kSequences, 1}, 2, DType::kBfloat16},
                           Case{{2, 14, false, 2, kSequences, 1}, 2, DType::kFloat32},
                           Case{{0, 3, true, 1, DeviceSplit::kTensors, 1}, 2, DType::kFloat32});
  Stage whole(of), parted(of);
  for (int64_t step = 0; step < 2; ++step) {
    for (Stage* stage : {&whole, &parted}) {
      for (int32_t m = 0; m < kMicrobatches; ++m) stage->Forward({step, m});
      stage->Backward({step, 0});
      stage->team().Accumulate({step, 0});
      stage->Backward({step, 3});  // waits for its turn
      stage->Backward({step, 1});
    }
    whole.Backward({step, 2});
    for (const int32_t m : {1, 2, 3}) whole.team().Accumulate({step, m});
    std::vector<float> sums(whole.values()), parts(whole.values());
    whole.team().TakeGradients(sums);

    const std::vector<MicrobatchKey> keys = {{step, 1}, {step, 2}, {step, 3}};
    const auto& runs = parted.team().parts();
    const size_t layers = static_cast<size_t>(of.stage.last_layer - of.stage.first_layer);
    const size_t split = layers > 3 ? layers / 2 : 3;  // of many layers two are a part
    CHECK(runs.size() == (of.stage.split == DeviceSplit::kTensors ? 1 : split));
    for (size_t p = 0; p < runs.size(); ++p) {
      REQUIRE(parted.BackwardPartOf({step, 2}, p).ok());
      parted.team().TakePart(p, keys,
                             std::span(parts).subspan(static_cast<size_t>(runs[p].offset),
                                                      static_cast<size_t>(runs[p].size)));
    }
    CHECK(SameBits(parts, sums));
    CHECK(SameBits(parted.out(), whole.out()));
    for (Stage* stage : {&whole, &parted})
      REQUIRE(stage->team().OptimizerStepOn(sums, step, kMicrobatches).ok());
  }
  CHECK(parted.team().HeldBytes() == whole.team().HeldBytes());
}

TEST_CASE("Parts: a pass in between ends the one in parts, and Discard lets it begin again",
          "[model][error]") {
  Stage stage({{2, 5, false, 0, DeviceSplit::kSequences, 1}, 1, DType::kFloat32});
  for (int32_t m = 0; m < 2; ++m) stage.Forward({0, m});
  REQUIRE(stage.BackwardPartOf({0, 0}, 0).ok());
  CHECK(stage.BackwardPartOf({0, 0}, 2).code() == absl::StatusCode::kFailedPrecondition);
  stage.Backward({0, 1});
  CHECK(stage.BackwardPartOf({0, 0}, 1).code() == absl::StatusCode::kFailedPrecondition);
  stage.team().Discard({0, 0});
  stage.Forward({0, 0});
  stage.Backward({0, 0});
}

}  // namespace
}  // namespace skerry
