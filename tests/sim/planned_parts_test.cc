// What a plan and a modelled stage take the parts of a backward pass for.
#include <catch2/catch.hpp>
#include <memory>

#include "model/backward_parts.h"
#include "pipeline/plan/round_bytes.h"
#include "sim/modelled_stage.h"
#include "tests/model/tiny_run.h"

namespace skerry {
namespace {

TEST_CASE("Parts: planned with and modelled as real stages cut them", "[node][plan]") {
  RunConfig config = TinyRun();
  config.model.hidden = 512;
  config.model.ffn = 1024;
  config.model.vocab = GENERATE(256, 30000);
  config.model.tied_head = GENERATE(false, true);
  config.model.layers = GENERATE(1, 6, 20);
  config.model.ladder = config.model.layers == 20 ? GENERATE(0, 4) : 0;
  const int32_t layers = config.model.layers;
  for (const bool ends : {false, true}) {
    CAPTURE(config.model.vocab, layers, config.model.ladder, ends);
    const auto layout = ParameterLayout::ForStage(config.model, 0, layers, ends);
    const auto real = BackwardParts(layout, 0, layers, kBackwardPartMin, config.model.ladder);
    const ModelledStage stage(config, {0, layers, {NodeId()}}, ends,
                              std::make_shared<ModelledDevice>());
    const std::vector<SumPart> planned = SumPartsOf(config, layers, ends);
    const auto modelled = stage.GradientParts();
    REQUIRE(planned.size() == real.size());
    REQUIRE(modelled.size() == real.size());
    int64_t end = stage.GradientValues();
    for (size_t p = 0; p < real.size(); ++p) {
      const double bytes = static_cast<double>(real[p].size) / static_cast<double>(layout.size());
      CHECK(planned[p].bytes == Approx(bytes));
      CHECK(planned[p].pass_left == Approx(static_cast<double>(real[p].down_to) / layers));
      CHECK(modelled[p].first + modelled[p].size == end);
      const auto values = static_cast<double>(stage.GradientValues());
      CHECK(static_cast<double>(modelled[p].size) / values == Approx(bytes).margin(1 / values));
      end = modelled[p].first;
    }
    CHECK(end == 0);
  }
}

}  // namespace
}  // namespace skerry
