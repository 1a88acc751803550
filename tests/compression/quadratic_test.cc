// Both directions compressed, some replicas missing every round: what theory promises on quadratics
// (the setting of MASHA, Beznosikov et al. 2021, arXiv 2110.03313).
//
//   f_r(x) = ½ Σ_i a_ri (x_i − b_ri)²,   a in [1/4, 1],   f = mean of f_r
//
// A contractive codec with a residual at both ends takes us to the optimum linearly when all
// replicas share it, and within a distance that falls with the step size when they do not. An
// unbiased one needs no residual: differences from a reference gradient, which all know, vanish at
// the optimum and so does their noise.
#include <cmath>

#include "tests/compression/every_codec.h"

namespace skerry {
namespace {

constexpr size_t kSize = 4096;
constexpr size_t kReplicas = 4;
using Vector = std::vector<float>;

struct Quadratic {
  Vector a = Vector(kSize), b = Vector(kSize);

  float Gradient(size_t i, float x) const { return a[i] * (x - b[i]); }
};

// Optima of replicas lie `spread` apart from a common one.
std::vector<Quadratic> Replicas(double spread, uint64_t seed) {
  Rng rng(seed, "quadratics");
  std::vector<Quadratic> all(kReplicas);
  for (size_t i = 0; i < kSize; ++i) {
    const double common = rng.Normal();
    for (Quadratic& one : all) {
      one.a[i] = static_cast<float>(0.25 + 0.75 * rng.Uniform());
      one.b[i] = static_cast<float>(common + spread * rng.Normal());
    }
  }
  return all;
}

double DistanceToOptimum(const std::vector<Quadratic>& replicas, const Vector& x) {
  double square = 0;
  for (size_t i = 0; i < kSize; ++i) {
    double curvature = 0, pull = 0;
    for (const Quadratic& one : replicas) {
      curvature += one.a[i];
      pull += double{one.a[i]} * one.b[i];
    }
    square += std::pow(x[i] - pull / curvature, 2);
  }
  return std::sqrt(square / kSize);
}

// What arrives of `input`; the rest waits in *residual.
Vector Send(const Codec& codec, const Vector& input, Vector* residual) {
  Bytes message;
  REQUIRE(codec.EncodeDelta({.base = input, .residual = *residual}, &message).ok());
  Vector decoded(kSize);
  REQUIRE(codec.Decode(message, decoded).ok());
  for (size_t i = 0; i < kSize; ++i) (*residual)[i] += input[i] - decoded[i];
  return decoded;
}

// The mean distance in the last quarter of `rounds` with residuals; each replica takes part with
// probability 3/4.
double WithResiduals(const Codec& codec, const std::vector<Quadratic>& replicas, double rate,
                     int rounds) {
  Rng rng(3, "presence");
  double distance = 0;
  Vector x(kSize, 0.0f), gradient(kSize), server(kSize, 0.0f);
  std::vector<Vector> residuals(kReplicas, Vector(kSize, 0.0f));
  for (int round = 0; round < rounds; ++round) {
    Vector sum(kSize, 0.0f);
    for (size_t r = 0; r < kReplicas; ++r) {
      if (rng.Below(4) == 0) continue;
      for (size_t i = 0; i < kSize; ++i) {
        gradient[i] = static_cast<float>(rate) * replicas[r].Gradient(i, x[i]);
      }
      const Vector arrived = Send(codec, gradient, &residuals[r]);
      for (size_t i = 0; i < kSize; ++i) sum[i] += arrived[i] / float{kReplicas};
    }
    const Vector step = Send(codec, sum, &server);
    for (size_t i = 0; i < kSize; ++i) x[i] -= step[i];
    if (round >= rounds - rounds / 4) distance += DistanceToOptimum(replicas, x);
  }
  return distance / (rounds / 4);
}

// A stable step size, by the codec's contraction, and how many rounds of it make a unit of time.
double RateOf(DeltaCodec kind) {
  if (kind == DeltaCodec::kSign) return 0.01;
  return kind == DeltaCodec::kTopK || kind == DeltaCodec::kTernary ? 0.02 : 0.5;
}

TEST_CASE("Quadratics: contractive both ways with residuals, a shared optimum is reached linearly",
          "[compression]") {
  const DeltaCodec kind = GENERATE(from_range(EveryCodec()));
  const double rate = RateOf(kind);
  const auto replicas = Replicas(0, 1);
  const auto after = [&](double time) {
    return WithResiduals(CodecFor(kind), replicas, rate, static_cast<int>(time / rate));
  };
  const double first = after(15), second = after(30);
  CAPTURE(static_cast<int>(kind), first, second);
  // Uncompressed a distance shrinks by exp(−curvature · presence · time), at least exp(−2.8) here.
  CHECK(first < 0.2);
  CHECK(second < 0.2 * first);
}

TEST_CASE("Quadratics: with optima apart, the distance left falls with the step size",
          "[compression]") {
  const DeltaCodec kind =
      GENERATE(DeltaCodec::kInt4, DeltaCodec::kTernary, DeltaCodec::kSign, DeltaCodec::kTopK);
  const double rate = RateOf(kind);
  const auto replicas = Replicas(0.3, 2);
  const double coarse = WithResiduals(CodecFor(kind), replicas, rate, static_cast<int>(40 / rate));
  const double fine =
      WithResiduals(CodecFor(kind), replicas, rate / 4, static_cast<int>(160 / rate));
  CAPTURE(static_cast<int>(kind), coarse, fine);
  CHECK(coarse < 0.3);
  CHECK(fine < 0.7 * coarse);
}

// Unbiased: one of four values, at random, four times as large; on the grid of `none`.
Vector Sparsified(const Vector& input, Rng* rng) {
  Vector kept(kSize, 0.0f);
  for (size_t i = 0; i < kSize; ++i) {
    if (rng->Below(4) == 0) kept[i] = 4 * input[i];
  }
  return MustDecode(CodecFor(DeltaCodec::kNone), MustEncode(CodecFor(DeltaCodec::kNone), kept),
                    kSize);
}

// Unbiased both ways, each replica's message lost with probability 1/4. With references, a
// replica sends its gradient's difference from that at a point all know, renewed now and then.
double Unbiased(const std::vector<Quadratic>& replicas, bool references, int rounds) {
  constexpr double kRate = 0.05, kPresence = 0.75;
  constexpr uint64_t kRenewEvery = 16;
  Rng rng(5, "unbiased");
  Vector x(kSize, 0.0f), reference(kSize, 0.0f), difference(kSize), known(kSize);
  for (int round = 0; round < rounds; ++round) {
    if (references && rng.Below(kRenewEvery) == 0) reference = x;
    Vector sum(kSize, 0.0f);
    known.assign(kSize, 0.0f);
    for (const Quadratic& one : replicas) {
      for (size_t i = 0; i < kSize; ++i) {
        const float there = references ? one.Gradient(i, reference[i]) : 0.0f;
        known[i] += there / float{kReplicas};
        difference[i] = one.Gradient(i, x[i]) - there;
      }
      if (rng.Uniform() > kPresence) continue;
      const Vector arrived = Sparsified(difference, &rng);
      for (size_t i = 0; i < kSize; ++i) {
        sum[i] += arrived[i] / static_cast<float>(kReplicas * kPresence);
      }
    }
    const Vector step = Sparsified(sum, &rng);
    for (size_t i = 0; i < kSize; ++i) x[i] -= static_cast<float>(kRate) * (step[i] + known[i]);
  }
  return DistanceToOptimum(replicas, x);
}

TEST_CASE("Quadratics: unbiased both ways, references take the noise away, without them it stays",
          "[compression]") {
  const auto replicas = Replicas(0.3, 4);
  const double first = Unbiased(replicas, true, 400), second = Unbiased(replicas, true, 800);
  const double bare = Unbiased(replicas, false, 800);
  CAPTURE(first, second, bare);
  CHECK(second < 0.05 * first);
  CHECK(second < 1e-3);
  CHECK(bare > 1e-2);
}

}  // namespace
}  // namespace skerry
