// What nodes say of the size of activations and gradients, as the coordinator takes it: named,
// journalled, shown, checked more often, and nobody put out.

#include <map>
#include <nlohmann/json.hpp>

#include "coordinator/evidence.h"
#include "coordinator/listings.h"
#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Node;
using skerry::testing::ServedRun;
using skerry::testing::SmallRun;

namespace {

RunConfig EightNodes() {
  RunConfig config = SmallRun();
  config.nodes_min = 8;
  config.steps = 100'000;
  config.node_silent_s = 1000;
  config.pipeline.microbatches_per_step = 8;
  return config;
}

struct Served : ServedRun {
  int64_t period = 0;
  NodeId liar;  // of stage 1; what it sends is four bits larger
  Served() : ServedRun(EightNodes()) {
    ticket_uses = 8;
    Restart();
    Gather(8);
    liar = Live(1)[2];
  }

  // Everybody's word of one period; then the coordinator looks.
  void Say(bool lies) {
    std::map<NodeId, BoundarySizes> said;
    const auto pass = [&](const NodeId& from, const NodeId& to, bool is_gradient) {
      const float log2 = from == liar && lies ? 4.0f : 0.0f;
      said[from].sides.push_back({to, is_gradient, true, 4, log2});
      said[to].sides.push_back({from, is_gradient, false, 4, log2});
    };
    for (const NodeId& a : Live(0)) {
      for (const NodeId& b : Live(1)) {
        for (const bool is_gradient : {false, true}) {
          pass(a, b, is_gradient);
          pass(b, a, is_gradient);
        }
      }
    }
    for (auto& [node, sizes] : said) {
      sizes.first_step = kBoundaryPeriodSteps * period;
      From(node, sizes);
    }
    ++period;
    Pass(6);
  }
};

nlohmann::json SizesOf(const RunState& state, const RunConfig& config, const NodeId& node) {
  for (const auto& of : NodesJson(state, config, nullptr)) {
    if (of["id"] == node.Hex()) return of["sizes"];
  }
  return nullptr;
}

}  // namespace

TEST_CASE("Sizes: who is odd is named, journalled, shown, and named no more when it is over",
          "[coordinator]") {
  Served run;
  for (int i = 0; i < 4; ++i) run.Say(/*lies=*/true);
  CHECK(run.CountEvents("odd_sizes") == 1);
  const auto event = run.LastEvent("odd_sizes");
  CHECK(event["node"] == run.liar.Short());
  CHECK(event["stage"] == 1);
  CHECK(event["times_others"] == 16);
  CHECK(event["by"].size() == 4);
  CHECK(run.CountEvents("sizes_disputed") == 0);
  CHECK(run.CountEvents("dead") == 0);
  CHECK(run.Fold().odd == std::map<NodeId, std::string>{{run.liar, "odd"}});
  CHECK(SizesOf(run.Fold(), run.config, run.liar) == "odd");
  CHECK(SizesOf(run.Fold(), run.config, run.Live(1)[0]) == "");
  Evidence evidence(run.liar);
  for (const std::string& record : run.journal) REQUIRE(evidence.Add(record).ok());
  CHECK(EvidenceText(evidence.Json()).find("16 times as large as those of others of stage 1") !=
        std::string::npos);

  SECTION("in the same life") {}
  SECTION("in another") {
    run.Restart();
    CHECK(run.state().odd.size() == 1);
  }
  for (int i = 0; i < 12; ++i) run.Say(/*lies=*/false);
  CHECK(run.CountEvents("sizes_settled") == 1);
  CHECK(run.state().odd.empty());
}

TEST_CASE("Sizes: what cannot be, and who has no part, is refused", "[coordinator][error]") {
  Served run;
  const BoundarySizes good{0, {{run.Live(0)[0], false, false, 4, 0}}};
  const NodeId node = run.Live(1)[0];
  const int64_t before = run.actor->refused();
  run.From(node, good);
  CHECK(run.actor->refused() == before);
  BoundarySizes bad = good;
  bad.sides[0].count = 0;
  run.From(node, bad);
  CHECK(run.actor->refused() == before + 1);
  run.From(Node(99), good);
  CHECK(run.actor->refused() > before);
  // Of who is in no plan, and of oneself: that entry does not count, the others do.
  run.From(node, BoundarySizes{8, {{Node(99), false, false, 4, 0}, {node, true, true, 4, 0}}});
  run.Pass(6);
  CHECK(run.CountEvents("odd_sizes") == 0);
}

// One that turns and turns does not fill the journal.
TEST_CASE("Sizes: so many changes of a node are journalled in a life, and no more",
          "[coordinator]") {
  Served run;
  for (int turn = 0; turn < 60; ++turn) {
    for (int i = 0; i < 12; ++i) run.Say(/*lies=*/turn % 2 == 0 && i < 8);
  }
  const auto records = std::count_if(
      run.journal.begin(), run.journal.end(),
      [](const std::string& record) { return nlohmann::json::parse(record)["kind"] == "sizes"; });
  CHECK(records > 4);
  CHECK(records <= 64);
}
