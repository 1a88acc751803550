#include "routing/cost_model.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace skerry {
namespace {

RunConfig Tiny() {
  RunConfig config;
  config.model = {
      .vocab = 10, .hidden = 4, .layers = 2, .heads = 2, .kv_heads = 1, .ffn = 8, .context = 3};
  config.pipeline.sequences_per_microbatch = 5;
  return config;
}

TEST_CASE("Cost model: weights and operations of a tiny model, counted by hand", "[routing]") {
  const RunConfig config = Tiny();
  // q, o: 4·4 each; k, v: 2·4 each; gate, up, down: 8·4 each; two norms of 4.
  CHECK(LayerParameters(config.model) == 16 + 16 + 8 + 8 + 96 + 8);
  CHECK(EndsParameters(config.model) == 40 + 40 + 4);
  CHECK(StageParameters(config.model, 2, true) == 2 * 152 + 84);
  CHECK(MicrobatchTokens(config) == 15);
  CHECK(BoundaryBytes(config) == 15 * 4 * 4);
  CHECK(LayerForwardFlops(config) == Approx(15 * (2 * 152 + 2 * 3 * 4)));
  CHECK(LossFlops(config) == Approx(3 * 2 * 15 * 4 * 10));
}

TEST_CASE("Cost model: a tied head has one table, a delta its codec's bits a weight", "[routing]") {
  RunConfig config = Tiny();
  config.model.tied_head = true;
  CHECK(EndsParameters(config.model) == 40 + 4);
  CHECK(DeltaBytes(config, 1, false) == 153);
  config.outer.codec = DeltaCodec::kNone;
  CHECK(DeltaBytes(config, 1, false) == 4 * 152);
  config.outer.codec = DeltaCodec::kTopK;
  CHECK(DeltaBytes(config, 1, false) == 3);
}

TEST_CASE("Cost model: a transfer is half a round trip and the bytes", "[routing]") {
  LinkEstimate link;
  CHECK(std::isinf(TransferSeconds(link, 1)));
  link = {.rtt_s = 0.2, .bytes_per_s = 1000, .source = LinkSource::kMeasured};
  CHECK(TransferSeconds(link, 500) == Approx(0.6));
}

TEST_CASE("Cost model: a device counts with the rate of the type that the run computes in",
          "[routing]") {
  RunConfig config;
  const DeviceProfile both = {"new", "", 200, 0, 420}, old = {"old", "", 90, 0};
  CHECK(ComputingFor(config, both).gflops == 200);
  config.inner.compute = InnerCompute::kBfloat16;
  CHECK(ComputingFor(config, both).gflops == 420);
  CHECK(ComputingFor(config, old).gflops == 90);  // it computes such a run in float32
}

TEST_CASE("Cost model: what is repeated of a layer is all but its last product", "[routing]") {
  const RunConfig config;
  const double down =
      2.0 * static_cast<double>(MicrobatchTokens(config)) * config.model.hidden * config.model.ffn;
  CHECK(LayerRepeatShare(config) * LayerForwardFlops(config) ==
        Approx(LayerForwardFlops(config) - down));
}

TEST_CASE("Cost model: a node that was not measured counts as the median", "[routing]") {
  const std::vector<NodeId> nodes = {TestNodeId(1), TestNodeId(2), TestNodeId(3)};
  std::map<NodeId, DeviceProfile> devices;
  CHECK(SpeedsOf(nodes, devices) == std::vector(3, kUnmeasuredGflops));
  devices[nodes[0]].gflops = 4;
  devices[nodes[2]].gflops = 8;
  CHECK(SpeedsOf(nodes, devices) == std::vector{4.0, 4.0, 8.0});
}

}  // namespace
}  // namespace skerry
