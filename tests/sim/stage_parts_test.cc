// A stage's work on others' behalf while its own backward pass is between two parts.
#include <catch2/catch.hpp>
#include <vector>

#include "kernels/backend.h"
#include "node/trained_stage.h"
#include "tests/model/tiny_run.h"

namespace skerry {
namespace {

Payload Stream(const StageWork& stage, float value) {
  const std::vector<float> values(static_cast<size_t>(stage.boundary_bytes()) / sizeof(float),
                                  value);
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  return MakePayload(Bytes(bytes, bytes + stage.boundary_bytes()));
}

TEST_CASE("Parts: another's work is not computed again between two of an own pass", "[node]") {
  const RunConfig config = TinyRun();
  const StageAssignment assignment{1, 4, {NodeId()}};
  const auto make = [&] {
    auto made =
        TrainedStage::Create(config, assignment, false, CreateReferenceBackend(), nullptr, 0, 1);
    REQUIRE(made.ok());
    return *std::move(made);
  };
  const auto whole = make(), parted = make();
  const Payload in = Stream(*whole, 0.5F), d_out = Stream(*whole, 0.25F);
  for (StageWork* stage : {whole.get(), parted.get()})
    REQUIRE(stage->Forward(0, 0, in).status.ok());
  const WorkResult want = whole->Backward(0, 0, d_out);
  REQUIRE(want.status.ok());

  const size_t parts = parted->GradientParts().size();
  REQUIRE(parts == 3);
  WorkResult got;
  for (size_t part = 0; part < parts; ++part) {
    got = parted->RunBackwardPart(0, 0, d_out, part);
    REQUIRE(got.status.ok());
    const bool is_between = part + 1 < parts;
    CHECK(parted->Recompute(in, d_out).ok() == !is_between);
    parted->Discard(0, 7);  // of another microbatch: nothing
  }
  CHECK(*got.values == *want.values);
}

}  // namespace
}  // namespace skerry
