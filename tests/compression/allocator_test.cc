// The choice of codecs against the dynamic programme it replaces.
#include "compression/allocator.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "common/rng.h"
#include "compression/codec.h"

namespace skerry {
namespace {

using Choices = std::vector<std::vector<CodecChoice>>;

// Tensors of very different sizes and scales, eight choices each near the rate-distortion curve, a
// few of them above its hull.
Choices RandomTensors(size_t tensors, uint64_t seed) {
  constexpr double kBits[] = {0.15, 1, 1.6, 2, 3, 4, 8, 16};
  Rng rng(seed, "tensors");
  Choices all(tensors);
  for (auto& choices : all) {
    const double n = 1000 * std::exp2(4 * rng.Uniform());
    const double variance = std::exp2(8 * rng.Uniform() - 4);
    for (const double bits : kBits) {
      const double waste = 1 + rng.Uniform();
      choices.push_back(
          {static_cast<int64_t>(n * bits / 8), n * variance * std::exp2(-2 * bits) * waste});
    }
  }
  return all;
}

// The least Σ value with Σ weight ≤ budget, weights rounded down to `bins` parts of the budget: at
// most the true optimum.
template <typename Weight, typename Value>
double DynamicProgramme(const Choices& all, double budget, size_t bins, Weight&& weight,
                        Value&& value) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> best(bins + 1, 0.0);
  for (const auto& choices : all) {
    std::vector<double> next(bins + 1, kNever);
    for (const CodecChoice& choice : choices) {
      const double part = weight(choice) / budget * static_cast<double>(bins);
      if (part > static_cast<double>(bins)) continue;
      const auto shift = static_cast<size_t>(part);
      for (size_t b = shift; b <= bins; ++b) {
        next[b] = std::min(next[b], best[b - shift] + value(choice));
      }
    }
    best = std::move(next);
  }
  return best[bins];
}

double ErrorOf(const CodecChoice& choice) {
  return choice.error;
}
double BytesOf(const CodecChoice& choice) {
  return static_cast<double>(choice.bytes);
}

Allocation Uniform(const Choices& all, int32_t choice) {
  Allocation out;
  for (const auto& choices : all) {
    out.choice.push_back(choice);
    out.bytes += choices[static_cast<size_t>(choice)].bytes;
    out.error += choices[static_cast<size_t>(choice)].error;
  }
  return out;
}

void CheckSums(const Choices& all, const Allocation& allocation) {
  int64_t bytes = 0;
  double error = 0;
  REQUIRE(allocation.choice.size() == all.size());
  for (size_t t = 0; t < all.size(); ++t) {
    const CodecChoice& choice = all[t].at(static_cast<size_t>(allocation.choice[t]));
    bytes += choice.bytes;
    error += choice.error;
  }
  CHECK(allocation.bytes == bytes);
  CHECK(allocation.error == error);
}

TEST_CASE("AllocateForError: the tensor that gains most per byte gets the bytes", "[compression]") {
  // The second saves 8 for 10 bytes, the first 3; then 1 and 0.5 for 10 more.
  const Choices all = {{{10, 4}, {20, 1}, {30, 0}}, {{10, 9}, {20, 1}, {30, 0.5}}};
  CHECK(AllocateForError(all, 13)->choice == std::vector<int32_t>{0, 0});
  CHECK(AllocateForError(all, 5)->choice == std::vector<int32_t>{0, 1});
  CHECK(AllocateForError(all, 2)->choice == std::vector<int32_t>{1, 1});
  CHECK(AllocateForError(all, 0.5)->choice == std::vector<int32_t>{2, 2});
  CHECK(AllocateForBytes(all, 30)->choice == std::vector<int32_t>{0, 1});
  CHECK(AllocateForBytes(all, 45)->choice == std::vector<int32_t>{1, 1});
}

TEST_CASE("AllocateForError: a choice above the hull uses up what is left of the budget",
          "[compression]") {
  // From (10, 10) straight to (30, 0); (20, 6) lies above that line.
  const Choices all = {{{10, 10}, {20, 6}, {30, 0}}};
  CHECK(AllocateForError(all, 6)->choice[0] == 1);
  CHECK(AllocateForBytes(all, 25)->choice[0] == 1);
}

TEST_CASE("Allocation: within 2 % of the dynamic programme, and within the budget",
          "[compression]") {
  const size_t tensors = GENERATE(9u, 12u, 60u);
  const uint64_t seed = GENERATE(1, 2, 3);
  const int32_t as_uniform = GENERATE(1, 3, 5);
  const Choices all = RandomTensors(tensors, seed);
  const Allocation uniform = Uniform(all, as_uniform);

  const auto fewest = AllocateForError(all, uniform.error);
  REQUIRE(fewest.ok());
  CheckSums(all, *fewest);
  CHECK(fewest->error <= uniform.error);
  CHECK(static_cast<double>(fewest->bytes) <=
        1.02 * DynamicProgramme(all, uniform.error, 8000, ErrorOf, BytesOf));

  const auto least = AllocateForBytes(all, uniform.bytes);
  REQUIRE(least.ok());
  CheckSums(all, *least);
  CHECK(least->bytes <= uniform.bytes);
  CHECK(least->error <=
        1.05 * DynamicProgramme(all, static_cast<double>(uniform.bytes), 8000, BytesOf, ErrorOf));
}

TEST_CASE("Allocation: more budget never costs more than one tensor's step", "[compression]") {
  const Choices all = RandomTensors(60, 5);
  int64_t step = 0;
  for (const auto& choices : all) step = std::max(step, choices.back().bytes);
  int64_t before = std::numeric_limits<int64_t>::max() / 2;
  for (double budget = 1.01 * Uniform(all, 7).error; budget < Uniform(all, 0).error;
       budget *= 1.3) {
    const auto allocation = AllocateForError(all, budget);
    REQUIRE(allocation.ok());
    CHECK(allocation->bytes <= before + step);
    before = allocation->bytes;
  }
}

TEST_CASE("Allocation: a budget that nothing fits is refused", "[compression][error]") {
  const Choices all = {{{10, 4}, {20, 1}}};
  CHECK_FALSE(AllocateForError(all, 0.5).ok());
  CHECK_FALSE(AllocateForBytes(all, 9).ok());
  CHECK(AllocateForError({}, 0)->choice.empty());
}

TEST_CASE(
    "MeasureCodecs: at the error of uniform int4, 15 % fewer bytes over tensors of "
    "unequal scale",
    "[compression]") {
  constexpr DeltaCodec kCodecs[] = {DeltaCodec::kTopK, DeltaCodec::kSign, DeltaCodec::kTernary,
                                    DeltaCodec::kInt4, DeltaCodec::kInt8, DeltaCodec::kBf16};
  constexpr int32_t kInt4 = 3;
  Rng rng(2, "deltas");
  Choices all;
  std::vector<std::vector<float>> tensors;
  for (int t = 0; t < 24; ++t) {
    const double scale = 1e-3 * std::exp2(-6 * rng.Uniform());
    std::vector<float> u(8192);
    for (float& v : u) v = static_cast<float>(scale * rng.Normal());
    all.push_back(*MeasureCodecs(u, kCodecs));
    tensors.push_back(u);
  }
  const Allocation uniform = Uniform(all, kInt4);
  const auto allocation = AllocateForError(all, uniform.error);
  REQUIRE(allocation.ok());
  CHECK(static_cast<double>(allocation->bytes) <= 0.85 * static_cast<double>(uniform.bytes));
  // What is announced is what is sent.
  int64_t sent = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    Bytes message;
    const auto codec = kCodecs[static_cast<size_t>(allocation->choice[t])];
    REQUIRE(CodecFor(codec).Encode(tensors[t], &message).ok());
    sent += static_cast<int64_t>(message.size());
  }
  CHECK(sent == allocation->bytes);
  CHECK_FALSE(MeasureCodecs(std::vector{NAN}, kCodecs).ok());
}

}  // namespace
}  // namespace skerry
