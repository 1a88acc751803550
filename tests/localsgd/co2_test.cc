// CO2 as published (Sun et al., ICLR 2024) against an oracle of its few lines.
#include <algorithm>

#include "localsgd/outer_fragments.h"
#include "tests/localsgd/stage_of_replicas.h"

namespace skerry {
namespace {

// G workers on quadratics ½·h·(w − target)², SGD inside; all in double. x and x_previous are
// x_{t,0} and x_{t−1,0}, mean_previous is the mean over workers of x_{t−1,τ}.
struct PublishedCo2 {
  double alpha, beta, gap, clip;  // α, β, Λ, φ (0: off)
  std::vector<double> x, x_previous = {}, mean_previous = {}, m = {};

  // From the mean of the workers' x_{t,τ} to x_{t+1,0}.
  void Boundary(const std::vector<double>& mean) {
    const std::vector<double> start = x;
    if (m.empty()) m.assign(x.size(), 0.0);
    for (size_t i = 0; i < x.size() && !x_previous.empty(); ++i) {
      m[i] = beta * m[i] + (x_previous[i] - mean_previous[i]) / gap;
      if (clip > 0) m[i] = std::clamp(m[i], -clip, clip);
      x[i] -= alpha * m[i];
    }
    x_previous = start;
    mean_previous = mean;
  }
};

constexpr size_t kSize = 40, kWorkers = 3;
constexpr int64_t kTau = 4;

// One inner step of worker `c` on weight `i`.
double InnerStep(size_t c, size_t i, double w) {
  const double h = 0.02 + 0.01 * static_cast<double>(i % 7);
  const double target = std::sin(static_cast<double>(3 * i + 11 * c));
  return w - h * (w - target);
}

struct Case {
  double alpha, beta, gap, clip;
};

TEST_CASE("CO2: round for round the published rule, its gap and its clip really acting",
          "[localsgd]") {
  const Case c = GENERATE(Case{1, 0, 1, 0}, Case{0.8, 0.5, 1, 0}, Case{1, 0.5, 2.5, 0},
                          Case{1, 0.6, 1.5, 0.05});
  OuterConfig config = Outer(static_cast<float>(c.alpha), static_cast<float>(c.beta),
                             DeltaCodec::kNone, ResidualPlace::kBuffer);
  config.inner_steps = kTau;
  const OuterLaw law = *OuterLaw::Of(OuterMode::kCo2, config,
                                     {.momentum_clip = static_cast<float>(c.clip), .gap = c.gap});
  const auto start = RandomVector(kSize, 4);
  const std::vector<double> start_double(start.begin(), start.end());
  PublishedCo2 oracle{c.alpha, c.beta, c.gap, c.clip, start_double};
  auto stage = Stage(kWorkers, law.config, start, law.replica);
  std::vector<Bytes> sent(kWorkers), sent_before;
  bool clipped = false;
  for (int64_t round = 0; round < 25; ++round) {
    std::vector<double> mean(kSize, 0.0);
    for (size_t w = 0; w < kWorkers; ++w) {
      for (size_t i = 0; i < kSize; ++i) {
        double reference = oracle.x[i];
        for (int64_t k = 0; k < kTau; ++k) {
          reference = InnerStep(w, i, reference);
          stage[w].theta[i] = static_cast<float>(InnerStep(w, i, stage[w].theta[i]));
        }
        mean[i] += reference / double{kWorkers};
      }
    }
    oracle.Boundary(mean);
    sent_before = sent;
    for (size_t w = 0; w < kWorkers; ++w) sent[w] = **stage[w].replica.Encode(stage[w].theta);
    for (size_t w = 0; w < kWorkers; ++w) {
      std::vector<OuterReplica::Accepted> commit;
      for (size_t o = 0; o < kWorkers; ++o) commit.push_back({1, sent_before[o], o == w});
      OuterReplica& replica = stage[w].replica;
      REQUIRE((round == 0 ? replica.Restart(stage[w].theta) : replica.Apply(commit, stage[w].theta))
                  .ok());
    }
    const std::vector<float> want(oracle.x.begin(), oracle.x.end());
    for (const Worker& worker : stage) {
      REQUIRE(MaxDifference(worker.theta, want) < 2e-5);
      REQUIRE(SameBits(worker.theta, worker.replica.base()));
    }
    for (const double m : oracle.m) clipped = clipped || (c.clip > 0 && std::fabs(m) == c.clip);
  }
  CHECK(clipped == (c.clip > 0));
}

TEST_CASE("CO2: without a given gap it is that of one round of staleness", "[localsgd]") {
  const OuterConfig config = Outer(1.0f, 0.5f, DeltaCodec::kNone, ResidualPlace::kBuffer);
  const OuterLaw law = *OuterLaw::Of(OuterMode::kCo2, config);
  auto stage = Stage(1, law.config, {0.0f}, law.replica);
  stage[0].theta = {-1.0f};
  const Bytes sent = **stage[0].replica.Encode(stage[0].theta);
  REQUIRE(stage[0].replica.Restart(stage[0].theta).ok());
  stage[0].theta = {-1.0f};
  REQUIRE(stage[0].replica.Encode(stage[0].theta).ok());
  REQUIRE(stage[0]
              .replica.Apply(std::vector{OuterReplica::Accepted{1, sent, true}}, stage[0].theta)
              .ok());
  // Heavy-ball, β ½, s 1: limit ½, so Λ = 1 / 0.4.
  CHECK(stage[0].theta[0] == Approx(-0.4f));
}

TEST_CASE("CO2: with lossy messages and missing ones nothing is lost or counted twice",
          "[localsgd]") {
  const auto codec = GENERATE(from_range(EveryCodec()));
  OuterConfig config = Outer(0.7f, 0.3f, codec, ResidualPlace::kBuffer);
  const OuterLaw law = *OuterLaw::Of(OuterMode::kCo2, config);
  constexpr size_t kValues = 300;
  auto stage = Stage(2, law.config, RandomVector(kValues, 1), law.replica);
  std::vector<double> inner(kValues, 0.0), accepted(kValues, 0.0);  // of worker 0
  std::vector<Bytes> sent(2), before;
  Rng rng(3, "co2");
  for (int round = 0; round < 20; ++round) {
    for (size_t w = 0; w < 2; ++w) {
      for (size_t i = 0; i < kValues; ++i) {
        const float was = stage[w].theta[i];
        stage[w].theta[i] += static_cast<float>(0.01 * rng.Normal());
        if (w == 0) inner[i] += double{was} - stage[w].theta[i];
      }
    }
    before = sent;
    for (size_t w = 0; w < 2; ++w) sent[w] = **stage[w].replica.Encode(stage[w].theta);
    const bool missing = round % 3 == 2;
    for (size_t w = 0; w < 2; ++w) {
      std::vector<OuterReplica::Accepted> commit = {{1, before[1], w == 1}};
      if (!missing) commit.push_back({1, before[0], w == 0});
      REQUIRE((round == 0 ? stage[w].replica.Restart(stage[w].theta)
                          : stage[w].replica.Apply(commit, stage[w].theta))
                  .ok());
    }
    std::vector<float> decoded(kValues);
    if (round > 0 && !missing) {
      REQUIRE(stage[0].replica.codecs().Of(0)->Decode(before[0], decoded).ok());
      for (size_t i = 0; i < kValues; ++i) accepted[i] += decoded[i];
    }
    REQUIRE(stage[0].replica.codecs().Of(0)->Decode(sent[0], decoded).ok());  // in flight
    const auto e = ResidualOf(stage[0].replica);
    double worst = 0;
    for (size_t i = 0; i < kValues; ++i) {
      worst = std::max(worst, std::fabs(accepted[i] + decoded[i] + e[i] - inner[i]));
    }
    REQUIRE(worst < 3e-5);
    REQUIRE(SameBits(stage[0].theta, stage[1].theta));
  }
}

TEST_CASE("CO2: two messages are in flight, no more, and it goes back once", "[localsgd]") {
  const auto codec = GENERATE(DeltaCodec::kNone, DeltaCodec::kTernary, DeltaCodec::kTopK);
  const OuterConfig config = Outer(0.7f, 0.3f, codec, ResidualPlace::kBuffer);
  const OuterLaw law = *OuterLaw::Of(OuterMode::kCo2, config);
  auto stage = Stage(1, law.config, RandomVector(900, 1), law.replica);
  Worker& worker = stage[0];
  const auto move = RandomVector(900, 2, 0.01);
  for (size_t i = 0; i < 900; ++i) worker.theta[i] -= move[i];
  const Bytes first = **worker.replica.Encode(worker.theta);
  REQUIRE(worker.replica.Restart(worker.theta).ok());
  CHECK_FALSE(worker.replica.Restart(worker.theta).ok());
  for (size_t i = 0; i < 900; ++i) worker.theta[i] += 0.5f * move[i];
  REQUIRE(worker.replica.Encode(worker.theta).ok());
  CHECK_FALSE(worker.replica.Encode(worker.theta).ok());

  const std::vector<OuterReplica::Accepted> commit = {{1, first, true}};
  REQUIRE(worker.replica.Apply(commit, worker.theta).ok());
}

}  // namespace
}  // namespace skerry
