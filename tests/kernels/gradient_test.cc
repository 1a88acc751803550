// Every backward pass of the reference but attention's, in float64, against central differences.
#include <catch2/catch.hpp>

#include "kernels/reference/ops.h"
#include "tests/kernels/finite_differences.h"
#include "tests/kernels/values.h"

namespace skerry {
namespace {

constexpr Transpose kNo = Transpose::kNo, kYes = Transpose::kYes;

Doubles Draw(int64_t count, const std::string& name) {
  return Normals<double>(count, name);
}

}  // namespace

TEST_CASE("Gradient: the products of a linear layer", "[kernels][gradient]") {
  constexpr int64_t kM = 3, kN = 4, kK = 5;
  Doubles x = Draw(kM * kK, "x"), w = Draw(kK * kN, "w");
  const Doubles d_y = Draw(kM * kN, "d_y");
  const auto loss = [&] {
    Doubles y(static_cast<size_t>(kM * kN));
    reference::Gemm<double>(kNo, kNo, AsRows(x, kM), AsRows(w, kK), 0, AsRows(y, kM));
    return Weigh(d_y, y);
  };

  Doubles d_x(x.size()), d_w(w.size());
  reference::Gemm<double>(kNo, kYes, AsRows(d_y, kM), AsRows(w, kK), 0, AsRows(d_x, kM));
  reference::Gemm<double>(kYes, kNo, AsRows(x, kM), AsRows(d_y, kM), 0, AsRows(d_w, kK));

  CHECK(NormwiseError(d_x, Differences(x, loss)) < kDifferenceError);
  CHECK(NormwiseError(d_w, Differences(w, loss)) < kDifferenceError);
}

TEST_CASE("Gradient: embedding, with a token that repeats", "[kernels][gradient]") {
  const std::vector<int32_t> tokens = {2, 0, 2, 4};
  Doubles table = Draw(5 * 3, "table");
  const Doubles d_out = Draw(4 * 3, "d_out");
  const auto loss = [&] {
    Doubles out(12);
    reference::EmbeddingForward<double>(tokens, AsRows(table, 5), AsRows(out, 4));
    return Weigh(d_out, out);
  };

  Doubles d_table(table.size());
  reference::EmbeddingBackward<double>(tokens, AsRows(d_out, 4), AsRows(d_table, 5));

  CHECK(NormwiseError(d_table, Differences(table, loss)) < kDifferenceError);
}

TEST_CASE("Gradient: RMSNorm adds to what is there", "[kernels][gradient]") {
  constexpr int64_t kRows = 3;
  constexpr double kEpsilon = 1e-2;  // large enough to be seen
  Doubles x = Draw(kRows * 7, "x"), weight = Draw(7, "weight"), inverse(kRows);
  const Doubles d_out = Draw(kRows * 7, "d_out");
  const auto loss = [&] {
    Doubles out(x.size());
    reference::RmsNormForward<double>(AsRows(x, kRows), weight.data(), kEpsilon, AsRows(out, kRows),
                                      inverse.data());
    return Weigh(d_out, out);
  };
  loss();

  Doubles d_x(x.size(), 10.0), d_weight(weight.size(), 20.0);
  reference::RmsNormBackward<double>(AsRows(x, kRows), weight.data(), inverse.data(),
                                     AsRows(d_out, kRows), AsRows(d_x, kRows), d_weight.data());

  for (double& d : d_x) d -= 10;
  for (double& d : d_weight) d -= 20;
  CHECK(NormwiseError(d_x, Differences(x, loss)) < kDifferenceError);
  CHECK(NormwiseError(d_weight, Differences(weight, loss)) < kDifferenceError);
}

TEST_CASE("Gradient: rotation's is the inverse rotation", "[kernels][gradient]") {
  const AttentionShape shape = {2, 3, 2, 1, 4};
  Doubles q = Draw(6 * 8, "q"), k = Draw(6 * 4, "k");
  const Doubles d_q = Draw(6 * 8, "d_q"), d_k = Draw(6 * 4, "d_k");
  const auto loss = [&] {
    Doubles turned_q = q, turned_k = k;
    reference::Rope<double>(shape, 100, false, AsRows(turned_q, 6), AsRows(turned_k, 6));
    return Weigh(d_q, turned_q) + Weigh(d_k, turned_k);
  };

  Doubles back_q = d_q, back_k = d_k;
  reference::Rope<double>(shape, 100, true, AsRows(back_q, 6), AsRows(back_k, 6));

  CHECK(NormwiseError(back_q, Differences(q, loss)) < kDifferenceError);
  CHECK(NormwiseError(back_k, Differences(k, loss)) < kDifferenceError);
}

TEST_CASE("Gradient: a bias's is the sum of the rows", "[kernels][gradient]") {
  const Doubles x = Draw(3 * 5, "x"), d_y = Draw(3 * 5, "d_y");
  Doubles bias = Draw(5, "bias");
  const auto loss = [&] {
    Doubles y = x;
    reference::AddBias<double>(bias.data(), AsRows(y, 3));
    return Weigh(d_y, y);
  };

  Doubles d_bias(5, 9.0);
  reference::BiasBackward<double>(AsRows(d_y, 3), d_bias.data());

  CHECK(NormwiseError(d_bias, Differences(bias, loss)) < kDifferenceError);
}

TEST_CASE("Gradient: SwiGLU", "[kernels][gradient]") {
  Doubles gate_up = Draw(3 * 10, "gate_up");
  const Doubles d_out = Draw(3 * 5, "d_out");
  const auto loss = [&] {
    Doubles out(15);
    reference::SwigluForward<double>(AsRows(gate_up, 3), AsRows(out, 3));
    return Weigh(d_out, out);
  };

  Doubles d_gate_up(gate_up.size());
  reference::SwigluBackward<double>(AsRows(gate_up, 3), AsRows(d_out, 3), AsRows(d_gate_up, 3));

  CHECK(NormwiseError(d_gate_up, Differences(gate_up, loss)) < kDifferenceError);
}

TEST_CASE("Gradient: cross-entropy, with and without z-loss", "[kernels][gradient]") {
  const CrossEntropyTerms terms = {0.25f, GENERATE(0.0f, 0.125f)};
  const std::vector<int32_t> targets = {0, 6, 3};
  Doubles logits = Draw(3 * 7, "logits");
  const auto loss = [&] {
    Doubles read = logits;
    Doubles losses(3);
    reference::CrossEntropy<double>(targets, terms, AsRows(read, 3), losses.data());
    return (losses[0] + losses[1] + losses[2]) / 4;
  };

  Doubles gradient = logits, losses(3);
  reference::CrossEntropy<double>(targets, terms, AsRows(gradient, 3), losses.data());

  CHECK(NormwiseError(gradient, Differences(logits, loss)) < kDifferenceError);
}

}  // namespace skerry
