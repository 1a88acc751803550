// Whole runs in which one replica sends wild deltas: what they do to a plain mean, and what is left
// of that under each robust mode, and when it is put out.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "coordinator/wild_deltas.h"
#include "tests/sim/sharded_fleet.h"

using namespace skerry;
using skerry::testing::EightNodes;
using skerry::testing::EndOf;

namespace {

constexpr int32_t kLiar = 5;

struct Trained {
  VirtualOutcome outcome;
  std::string wrong;
  std::set<std::string> screened;  // whom events name
  int64_t events = 0;
  std::set<std::string> put_out;
};

VirtualRunOptions Fleet(OuterRobust robust, OuterReduce reduce) {
  VirtualRunOptions options = EightNodes();
  options.math = VirtualMath::kTiny;
  options.config.steps = 48;
  options.config.outer.robust = robust;
  options.config.outer.reduce = reduce;
  if (reduce == OuterReduce::kSharded) options.config.model.layers = 16;  // each has a part
  if (robust == OuterRobust::kClip) options.config.outer.robust_limit = 1;
  return options;
}

Trained Train(VirtualRunOptions options, const WildDelta& wild) {
  VirtualRun run(std::move(options));
  run.simulation().At(Instant(), [&run, wild](Simulation&) { run.faults(kLiar).wild = wild; });
  Trained trained;
  trained.outcome = run.Run();
  trained.wrong = EndOf(run, trained.outcome);
  for (const VirtualEvent& event : run.events()) {
    if (event.kind != "screened" && event.kind != "dead") continue;
    const std::string node = nlohmann::json::parse("{" + event.fields + "}")["node"];
    (event.kind == "dead" ? trained.put_out : trained.screened).insert(node);
    trained.events += event.kind == "screened" ? 1 : 0;
  }
  return trained;
}

}  // namespace

TEST_CASE("Wild deltas: who drifts adds the same to whatever it learnt", "[sim][robust]") {
  const Codec& codec = CodecFor(DeltaCodec::kNone);
  std::vector<std::vector<float>> added;
  for (const float sign : {1.0f, -1.0f}) {
    const std::vector<float> honest = {sign, -sign, sign, sign};
    Bytes bytes;
    REQUIRE(codec.Encode(honest, &bytes).ok());
    Rng rng(static_cast<uint64_t>(2 + sign));
    const Payload wild =
        WildMessage(MakePayload(std::move(bytes)), 4, codec, {.factor = 2, .is_drift = true}, &rng);
    std::vector<float> said(4);
    REQUIRE(codec.Decode(View(wild), said).ok());
    for (size_t i = 0; i < said.size(); ++i) said[i] -= honest[i];
    added.push_back(said);
  }
  for (size_t i = 0; i < 4; ++i) CHECK(added[0][i] == Approx(added[1][i]));
  CHECK(std::abs(added[0][0]) > 0.01);
}

TEST_CASE("Wild deltas: who copies another's is believed, and does little", "[sim][robust]") {
  const OuterReduce reduce = GENERATE(OuterReduce::kAll, OuterReduce::kSharded);
  const Trained calm = Train(Fleet(OuterRobust::kScreen, reduce), {.factor = 1});
  const Trained copied = Train(Fleet(OuterRobust::kScreen, reduce), {.factor = 1, .is_copy = true});
  CHECK(copied.wrong.empty());
  CHECK(copied.screened.empty());
  CHECK(copied.outcome.loss_last != calm.outcome.loss_last);
  CHECK(copied.outcome.loss_last < 1.02 * calm.outcome.loss_last);
}

TEST_CASE("Wild deltas: they ruin a plain mean, and no robust mode", "[sim][robust]") {
  const OuterReduce reduce = GENERATE(OuterReduce::kAll, OuterReduce::kSharded);
  const WildDelta wild =
      GENERATE(WildDelta{1000, false}, WildDelta{-100, false}, WildDelta{300, true});
  const double calm = Train(Fleet(OuterRobust::kNone, reduce), {}).outcome.loss_last;
  const Trained ruined = Train(Fleet(OuterRobust::kNone, reduce), wild);
  INFO("reduce " << int(reduce) << " factor " << wild.factor << " noise " << wild.is_noise
                 << " calm " << calm << " ruined " << ruined.outcome.loss_last);
  CHECK_FALSE(ruined.outcome.loss_last < 1.5 * calm);
  CHECK(ruined.screened.empty());
  for (const OuterRobust robust : {OuterRobust::kScreen, OuterRobust::kClip, OuterRobust::kTrim}) {
    const Trained trained = Train(Fleet(robust, reduce), wild);
    INFO("mode " << int(robust) << " loss " << trained.outcome.loss_last);
    CHECK(trained.wrong == "");
    CHECK(trained.outcome.loss_last < 1.1 * calm);
    const std::set<std::string> liar = {VirtualRun::node(kLiar).Short()};
    CHECK(trained.screened == liar);
    CHECK(trained.events == kWildRounds);
    CHECK(trained.put_out == liar);
  }
}
