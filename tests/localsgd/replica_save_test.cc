// Law 15: a saved replica continues bit for bit, also with a message in flight.
#include "tests/localsgd/stage_of_replicas.h"

namespace skerry {
namespace {

void Round(std::vector<Worker>* stage, uint64_t seed) {
  for (size_t c = 0; c < stage->size(); ++c) {
    const auto move = RandomVector((*stage)[c].theta.size(), 100 * seed + c, 0.01);
    for (size_t i = 0; i < move.size(); ++i) (*stage)[c].theta[i] -= move[i];
  }
}

TEST_CASE("Law 15: restored in mid-flight, a replica continues bit for bit", "[localsgd]") {
  const auto place = GENERATE(ResidualPlace::kBuffer, ResidualPlace::kWeights);
  const auto codec = GENERATE(from_range(EveryCodec()));
  const bool in_flight = GENERATE(false, true);
  const OuterConfig config = Outer(0.7f, 0.6f, codec, place);
  const OuterReplicaOptions options = {.clip_ratio = 0.03f};
  auto stage = Stage(2, config, RandomVector(1500, 1), options);
  for (uint64_t round = 0; round < 3; ++round) {
    Round(&stage, round);
    EncodeAll(&stage);
    ApplyAll(&stage, {0, 1});
  }
  Round(&stage, 3);
  if (in_flight) EncodeAll(&stage);

  const Bytes saved = stage[0].replica.Save();
  auto restored = OuterReplica::Restore(config, saved, options);
  REQUIRE(restored.ok());
  CHECK(restored->Save() == saved);
  CHECK(restored->version() == 3);
  CHECK(restored->BaseDigest() == stage[0].replica.BaseDigest());

  auto twin = stage;
  twin[0].replica = std::move(restored).value();
  for (auto* both : {&stage, &twin}) {
    if (!in_flight) EncodeAll(both);
    ApplyAll(both, {1, 0});
    Round(both, 4);
    EncodeAll(both);
    ApplyAll(both, {1});
  }
  CHECK(SameBits(stage[0].theta, twin[0].theta));
  CHECK(stage[0].replica.Save() == twin[0].replica.Save());
}

TEST_CASE("OuterReplica::Restore: every damaged byte and every cut is noticed",
          "[localsgd][error]") {
  const OuterConfig config = Outer(0.7f, 0.6f, DeltaCodec::kInt8, ResidualPlace::kBuffer);
  auto stage = Stage(1, config, RandomVector(9, 1));
  EncodeAll(&stage);
  const Bytes saved = stage[0].replica.Save();
  REQUIRE(OuterReplica::Restore(config, saved).ok());
  for (size_t i = 0; i < saved.size(); ++i) {
    Bytes damaged = saved;
    damaged[i] ^= 0x40;
    CAPTURE(i);
    CHECK_FALSE(OuterReplica::Restore(config, damaged).ok());
    CHECK_FALSE(OuterReplica::Restore(config, std::span(saved).first(i)).ok());
  }
  Bytes longer = saved;
  longer.push_back(0);
  CHECK(absl::IsDataLoss(OuterReplica::Restore(config, longer).status()));
}

TEST_CASE("OuterReplica::Restore: another outer configuration is refused", "[localsgd][error]") {
  const OuterConfig config = Outer(0.7f, 0.6f, DeltaCodec::kInt8, ResidualPlace::kBuffer);
  const Bytes saved = OuterReplica(config, RandomVector(9, 1)).Save();
  for (const OuterConfig& other : {Outer(0.8f, 0.6f, config.codec, config.residual),
                                   Outer(0.7f, 0.5f, config.codec, config.residual),
                                   Outer(0.7f, 0.6f, DeltaCodec::kNone, config.residual),
                                   Outer(0.7f, 0.6f, config.codec, ResidualPlace::kWeights)}) {
    CHECK(absl::IsFailedPrecondition(OuterReplica::Restore(other, saved).status()));
  }
}

}  // namespace
}  // namespace skerry
