// Every operation but attention: each CPU backend against the reference backend over odd shapes.
#include <catch2/catch.hpp>

#include "tests/kernels/operations.h"
#include "tests/kernels/suite.h"

namespace skerry {
namespace {

constexpr Transpose kNo = Transpose::kNo, kYes = Transpose::kYes;

template <typename Run>
void CheckAgainst(const Values& want, double error_max, Run&& run) {
  for (const KernelTable* kernels : RunnableKernels()) {
    INFO(kernels->name);
    CHECK(NormwiseError(run(*CreateCpuBackendWith(*kernels, 1)), want) <= error_max);
  }
}

// What `run(backend)` returns must, of every CPU backend, be near the reference's.
template <typename Run>
void CheckAgainstReference(double error_max, Run&& run) {
  CheckAgainst(run(*CreateReferenceBackend()), error_max, run);
}

}  // namespace

TEST_CASE("Gemm: every transpose and both betas multiply as the reference does", "[kernels]") {
  using operations::Sizes;
  const auto sizes =
      GENERATE(Sizes{1, 1, 1}, Sizes{1, 37, 8}, Sizes{37, 24, 515}, Sizes{515, 7, 33});
  const Transpose ta = GENERATE(kNo, kYes), tb = GENERATE(kNo, kYes);
  const float beta = GENERATE(0.0f, 1.0f);
  INFO(sizes.m << " x " << sizes.n << " x " << sizes.k << ", beta " << beta);
  CheckAgainstReference(kForwardError, [&](Backend& backend) {
    return operations::Product(backend, sizes, ta, tb, beta);
  });
}

TEST_CASE("Gemm: a product over nothing is zero, or what was there", "[kernels]") {
  const float beta = GENERATE(0.0f, 1.0f);
  for (const auto& backend : {CreateReferenceBackend(), CreateCpuBackend(1)}) {
    Values c = {3, 4};
    backend->Gemm(kNo, kNo, {nullptr, 1, 0}, {nullptr, 0, 2}, beta, AsRows(c, 1));
    CHECK(c == (beta == 0 ? Values{0, 0} : Values{3, 4}));
  }
}

TEST_CASE("Embedding: rows are fetched, and gradients of a repeated token add up", "[kernels]") {
  const int64_t rows = GENERATE(1, 37, 515), width = GENERATE(1, 37, 64);
  CheckAgainstReference(
      0, [&](Backend& backend) { return operations::Embedding(backend, rows, width); });
  CheckAgainstReference(kGradientError, [&](Backend& backend) {
    return operations::EmbeddingGradient(backend, rows, width);
  });
  CheckAgainstReference(kGradientError, [&](Backend& backend) {
    return operations::EmbeddingOfPart(backend, rows, width);
  });
}

TEST_CASE("RmsNorm: values, inverse roots and gradients are the reference's", "[kernels]") {
  const int64_t rows = GENERATE(1, 37, 515), width = GENERATE(1, 37, 192);
  INFO(rows << " x " << width);
  CheckAgainstReference(kForwardError,
                        [&](Backend& backend) { return operations::Norm(backend, rows, width); });
  CheckAgainstReference(kGradientError, [&](Backend& backend) {
    return operations::NormGradients(backend, rows, width);
  });
}

TEST_CASE("Swiglu: values and gradients are the reference's", "[kernels]") {
  const int64_t rows = GENERATE(1, 37), ffn = GENERATE(1, 8, 37, 512);
  CheckAgainstReference(kForwardError,
                        [&](Backend& backend) { return operations::Swiglu(backend, rows, ffn); });
  CheckAgainstReference(kGradientError, [&](Backend& backend) {
    return operations::SwigluGradient(backend, rows, ffn);
  });
}

TEST_CASE("CrossEntropy: the loss and its gradient are the reference's", "[kernels]") {
  const int64_t rows = GENERATE(1, 37, 515), vocabulary = GENERATE(1, 8, 37, 1001);
  CheckAgainstReference(kForwardError, [&](Backend& backend) {
    const auto scored = operations::CrossEntropy(backend, rows, vocabulary, false);
    CHECK(scored.logits == operations::Logits(rows, vocabulary));
    return Values{scored.loss, operations::CrossEntropy(backend, rows, vocabulary, true).loss};
  });
  CheckAgainstReference(kGradientError, [&](Backend& backend) {
    return operations::CrossEntropy(backend, rows, vocabulary, true).logits;
  });
}

TEST_CASE("CrossEntropy: parts of a vocabulary together make the loss and gradient of the whole",
          "[kernels]") {
  const int64_t rows = GENERATE(1, 37, 130);
  const auto sizes = GENERATE(values<std::vector<int64_t>>({{1, 1}, {8, 11}, {1, 300, 37}}));
  const int64_t vocabulary = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const auto want = operations::WholeLosses(*CreateReferenceBackend(), rows, vocabulary);
  CheckAgainst(want.losses, kForwardError, [&](Backend& backend) {
    return operations::LossesOfParts(backend, rows, sizes).losses;
  });
  CheckAgainst(want.gradient, kGradientError, [&](Backend& backend) {
    return operations::LossesOfParts(backend, rows, sizes).gradient;
  });
  for (const KernelTable* kernels : RunnableKernels()) {
    const auto backend = CreateCpuBackendWith(*kernels, 2);
    const auto whole = operations::WholeLosses(*backend, rows, vocabulary);
    const auto one_part = operations::LossesOfParts(*backend, rows, {vocabulary});
    CHECK(SameBits(one_part.losses, whole.losses));
    CHECK(SameBits(one_part.gradient, whole.gradient));
  }
}

TEST_CASE("Optimizers: parameters and moments are the reference's", "[kernels]") {
  const int64_t n = GENERATE(1, 37, 4099), step = GENERATE(1, 100);
  CheckAgainstReference(kForwardError,
                        [&](Backend& backend) { return operations::AdamW(backend, n, step); });
  CheckAgainstReference(kForwardError,
                        [&](Backend& backend) { return operations::Sgd(backend, n); });
}

TEST_CASE("Sums, fills and copies are the reference's", "[kernels]") {
  const int64_t n = GENERATE(0, 1, 37, 4099);
  CheckAgainstReference(
      1e-12, [&](Backend& backend) { return operations::SumsFillsAndCopies(backend, n); });
  const Values x = Normals(n, "x");
  const double want = SumOfSquares(*CreateReferenceBackend(), x.data(), n);
  for (const KernelTable* kernels : RunnableKernels()) {
    const double got = SumOfSquares(*CreateCpuBackendWith(*kernels, 1), x.data(), n);
    CHECK(got == Approx(want).epsilon(1e-13));
  }
}

}  // namespace skerry
