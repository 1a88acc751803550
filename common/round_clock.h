// When outer rounds end and land: the one place that says it, for nodes, coordinator, planner and
// simulator alike. A pure value of the configuration, so nobody has to announce a boundary.
//
// Rounds of a stage are numbered from 0. With P fragments (1 in all modes but streaming) round r
// concerns fragment r mod P; its message is encoded after τ·(r + 1)/P inner steps and its step
// lands δ steps later, or after the last step. Streaming, τ = 4, P = 2, δ = 3, 8 steps:
//
//   inner steps   1  2  3  4  5  6  7  8
//   round 0          E0       A0                  fragment 0
//   round 1                E1       A1                     1
//   round 2                      E2    A2                  0   E2 before A1: two are in flight
//   round 3                            E3,A3               1
//   round 4                            E4,A4               0   what fragment 0 did since E2
//
// After the last step P − 1 more rounds bring the rest of all progress into the bases.
//
// Within a step a fragment's round lands before its next message is encoded, as a message must
// contain what landed: a fragment has one message in flight. In co2 the message goes first, against
// the base its round began from, and two are in flight.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/run_config.h"

namespace skerry {

// What a tier stands for (docs/OUTER_STEPS.md, "Tiers"): ternary, low rank of 0.15 bit or int8,
// both ways. Coarse codecs leave their rest in the weights, but in co2, which goes back to its
// base.
inline OuterConfig WithTier(OuterConfig outer) {
  const auto take = [&outer](DeltaCodec codec, ResidualPlace residual) {
    outer.codec = codec;
    outer.down_codec = DownCodec::kAuto;
    outer.residual = outer.mode == OuterMode::kCo2 ? ResidualPlace::kBuffer : residual;
  };
  switch (outer.tier) {
    case OuterTier::kCustom:
    case OuterTier::kAuto:
      break;
    case OuterTier::kDefault:
      take(DeltaCodec::kTernary, ResidualPlace::kWeights);
      break;
    case OuterTier::kStarved:
      take(DeltaCodec::kLowRank, ResidualPlace::kWeights);
      outer.budget_bits = 0.15f;
      break;
    case OuterTier::kRich:
      take(DeltaCodec::kInt8, ResidualPlace::kBuffer);
      break;
  }
  return outer;
}

// The outer configuration with what its tier and its mode fix filled in, so that everybody but the
// border sees plain numbers: δ of synchronous and data_parallel is 0, of co2 τ (left open where τ
// is); α and β of data_parallel are 1 and 0 (that its τ is 1 is checked: wire/config_rules.cc);
// rounds of co2 are not sharded unless that is asked for. Idempotent.
inline OuterConfig EffectiveOuter(OuterConfig outer) {
  outer = WithTier(outer);
  switch (outer.mode) {
    case OuterMode::kOverlap:
    case OuterMode::kStreaming:
      break;
    case OuterMode::kSynchronous:
      outer.overlap_steps = 0;
      break;
    case OuterMode::kCo2:
      outer.overlap_steps = outer.inner_steps > 0 ? outer.inner_steps : -1;
      if (outer.reduce == OuterReduce::kAuto) outer.reduce = OuterReduce::kAll;
      break;
    case OuterMode::kDataParallel:
      outer.overlap_steps = 0;
      outer.learning_rate = 1;
      outer.momentum = 0;
      break;
  }
  return outer;
}

// P of settled settings: 1 unless the mode is streaming, and at most τ, which the planner may have
// chosen.
inline int32_t FragmentsOf(const OuterConfig& outer) {
  if (outer.mode != OuterMode::kStreaming) return 1;
  return static_cast<int32_t>(
      std::clamp<int64_t>(outer.fragments, 1, std::max<int64_t>(1, outer.inner_steps)));
}

class RoundClock {
 public:
  // `outer` is settled: τ ≥ 1, δ in [0, τ]; what is left open counts as 1 and 0. `steps` is a
  // multiple of τ.
  RoundClock(const OuterConfig& outer, int64_t steps)
      : tau_(std::max<int64_t>(1, outer.inner_steps)),
        delta_(std::max<int64_t>(0, outer.overlap_steps)),
        steps_(steps),
        fragments_(FragmentsOf(outer)),
        restarts_(outer.mode == OuterMode::kCo2) {}
  explicit RoundClock(const RunConfig& config) : RoundClock(config.outer, config.steps) {}

  // Rounds of the whole run.
  int64_t rounds() const { return steps_ / tau_ * fragments_ + fragments_ - 1; }
  int64_t fragments() const { return fragments_; }
  int32_t FragmentOf(int64_t round) const { return static_cast<int32_t>(round % fragments_); }

  // Inner steps done when the message of a round is encoded, and when the round lands.
  int64_t Boundary(int64_t round) const { return std::min(steps_, Ends(round)); }
  int64_t Due(int64_t round) const { return std::min(steps_, Ends(round) + delta_); }

  // The inner step at which all begin who begin with the base of that version: it holds what was
  // learnt before.
  int64_t StartOf(int64_t version) const { return version <= 0 ? 0 : Boundary(version - 1); }

  // Rounds with a boundary, or landed, when so many inner steps are done.
  int64_t EndedBy(int64_t step) const {
    if (step >= steps_) return rounds();
    return step < 0 ? 0 : (fragments_ * (step + 1) + tau_ - 1) / tau_ - 1;
  }
  int64_t LandedBy(int64_t step) const {
    return step >= steps_ ? rounds() : EndedBy(step - delta_);
  }
  // Rounds in so many spans of τ steps.
  int64_t RoundsIn(int64_t spans) const { return spans * fragments_; }

  // Own messages that may be in flight.
  int64_t in_flight_max() const { return restarts_ ? 2 : fragments_; }
  // Whether the message of `round` may be encoded, `landed` rounds having landed.
  bool MayEncode(int64_t round, int64_t landed) const { return round - landed < in_flight_max(); }
  // Whether what was sent of `round` may be summed: its fragment's round before has landed.
  bool MayReduce(int64_t round, int64_t landed) const { return round - landed < fragments_; }
  // How far a peer's messages may be ahead of the first round not landed here: it needs our message
  // of a round to land that.
  int64_t RoundsAhead() const { return 2 * in_flight_max(); }

  // Inner steps that a node may be behind another: as many as a replica's peers may be ahead of it,
  // and as many again of a node of another stage, tied to them by microbatches only.
  int64_t StepsBehind() const { return 2 * RoundsAhead() / fragments_ * tau_ + 1; }

  bool restarts() const { return restarts_; }  // co2

 private:
  // Without regard to the run's end.
  int64_t Ends(int64_t round) const { return tau_ * (round + 1) / fragments_; }

  int64_t tau_, delta_, steps_;
  int64_t fragments_;
  bool restarts_;
};

}  // namespace skerry
