// Conservation: a message and the residual it leaves are what was put in.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/compression/every_codec.h"

namespace skerry {
namespace {

// Codecs whose nonzero values lie between half and twice the value they stand for (Sterbenz): the
// float32 residual is exact. The others may be off by its last bit.
bool LeavesExactly(DeltaCodec kind) {
  return kind != DeltaCodec::kSign && kind != DeltaCodec::kTopK;
}

TEST_CASE("Feedback: message and residual add up to the input", "[compression]") {
  const DeltaCodec kind = GENERATE(from_range(EveryCodec()));
  const double slack = LeavesExactly(kind) ? 0 : 0x1p-24;
  const Codec& codec = CodecFor(kind);
  auto inputs = AwkwardButValid();
  for (uint64_t seed = 0; seed < 10; ++seed) {
    inputs.push_back(HeavyTail(5000 + seed, seed));
    inputs.push_back(Gaussian(5000 + seed, seed));
  }
  for (const auto& u : inputs) {
    const auto decoded = MustDecode(codec, MustEncode(codec, u), u.size());
    bool adds_up = true;
    for (size_t i = 0; i < u.size(); ++i) {
      const float residual = u[i] - decoded[i];
      const double error = double{decoded[i]} + residual - u[i];
      adds_up &= std::fabs(error) <= slack * std::fabs(residual);
    }
    CHECK(adds_up);
  }
}

double Norm(std::span<const float> values) {
  double square = 0;
  for (const float v : values) square += double{v} * v;
  return std::sqrt(square);
}

TEST_CASE("Feedback: over many rounds everything put in is sent, but for a bounded residual",
          "[compression]") {
  const DeltaCodec kind = GENERATE(from_range(EveryCodec()));
  const Codec& codec = CodecFor(kind);
  constexpr size_t kSize = 4500;
  constexpr int kRounds = 300;
  std::vector<float> residual(kSize, 0.0f), decoded(kSize);
  std::vector<double> put_in(kSize, 0.0), sent(kSize, 0.0);
  const auto drift = Gaussian(kSize, 1000);
  double largest = 0;  // norm of a round's input
  Bytes message;
  for (uint64_t round = 0; round < kRounds; ++round) {
    auto delta = Gaussian(kSize, round);
    for (size_t i = 0; i < kSize; ++i) {
      delta[i] = (delta[i] + drift[i]) / 2;
      put_in[i] += delta[i];
    }
    largest = std::max(largest, Norm(delta));
    const DeltaSource source = {.base = delta, .residual = residual};
    REQUIRE(codec.EncodeDelta(source, &message).ok());
    REQUIRE(codec.Decode(message, decoded).ok());
    for (size_t i = 0; i < kSize; ++i) {
      residual[i] = delta[i] + residual[i] - decoded[i];
      sent[i] += decoded[i];
    }
  }
  double lost = 0;
  for (size_t i = 0; i < kSize; ++i) {
    lost = std::max(lost, std::fabs(sent[i] + residual[i] - put_in[i]));
  }
  CHECK(lost < 1e-6);
  // Law 6: at most 2 / c inputs for a codec that takes away the share c of a square. The sign's
  // share, mean magnitude squared over mean square, falls when few values are large.
  const double inverse_share = kind == DeltaCodec::kTopK ? 64 : kind == DeltaCodec::kSign ? 16 : 4;
  CHECK(Norm(residual) <= 2 * largest * inverse_share);
}

}  // namespace
}  // namespace skerry
