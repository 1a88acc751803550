// Every operation but attention: each CPU backend against the reference backend over odd shapes.
#include <catch2/catch.hpp>

#include "tests/kernels/calls.h"
#include "tests/kernels/suite.h"
#include "tests/kernels/values.h"

namespace skerry {
namespace {

constexpr Transpose kNo = Transpose::kNo, kYes = Transpose::kYes;

// `run(backend)` returns a result; every CPU backend's must be near the reference's.
template <typename Run>
void CheckAgainstReference(double error_max, Run&& run) {
  const Values want = run(*CreateReferenceBackend());
  for (const KernelTable* kernels : RunnableKernels()) {
    INFO(kernels->name);
    CHECK(NormwiseError(run(*CreateCpuBackendWith(*kernels, 1)), want) <= error_max);
  }
}

struct Sizes {
  int64_t m, n, k;
};

}  // namespace

TEST_CASE("Gemm: every transpose and both betas multiply as the reference does", "[kernels]") {
  const auto [m, n, k] =
      GENERATE(Sizes{1, 1, 1}, Sizes{1, 37, 8}, Sizes{37, 24, 515}, Sizes{515, 7, 33});
  const Transpose ta = GENERATE(kNo, kYes), tb = GENERATE(kNo, kYes);
  const float beta = GENERATE(0.0f, 1.0f);
  INFO(m << " x " << n << " x " << k << ", beta " << beta);
  const Values a = Normals(m * k, "a"), b = Normals(k * n, "b");

  CheckAgainstReference(kForwardError, [&](Backend& backend) {
    Values c = Normals(m * n, "c");
    backend.Gemm(ta, tb, AsRows(a, ta == kYes ? k : m), AsRows(b, tb == kYes ? n : k), beta,
                 AsRows(c, m));
    return c;
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
  constexpr int64_t kVocabulary = 29;
  const std::vector<int32_t> tokens = Tokens(rows, kVocabulary, "tokens");

  CheckAgainstReference(0, [&](Backend& backend) {
    const Values table = Normals(kVocabulary * width, "table");
    Values out(static_cast<size_t>(rows * width));
    backend.EmbeddingForward(tokens, AsRows(table, kVocabulary), AsRows(out, rows));
    return out;
  });
  CheckAgainstReference(kGradientError, [&](Backend& backend) {
    const Values d_out = Normals(rows * width, "d_out");
    Values d_table = Normals(kVocabulary * width, "d_table");
    backend.EmbeddingBackward(tokens, AsRows(d_out, rows), AsRows(d_table, kVocabulary));
    return d_table;
  });
}

TEST_CASE("RmsNorm: values, inverse roots and gradients are the reference's", "[kernels]") {
  const int64_t rows = GENERATE(1, 37, 515), width = GENERATE(1, 37, 192);
  INFO(rows << " x " << width);
  const Values x = Normals(rows * width, "x"), weight = Normals(width, "weight");
  const Values d_out = Normals(rows * width, "d_out");
  Values inverse(static_cast<size_t>(rows)), unused(x.size());
  Normalise(*CreateReferenceBackend(), AsRows(x, rows), weight.data(), 1e-5f, AsRows(unused, rows),
            inverse.data());

  CheckAgainstReference(kForwardError, [&](Backend& backend) {
    Values result(x.size() + inverse.size());
    Normalise(backend, AsRows(x, rows), weight.data(), 1e-5f, Tensor(result.data(), rows, width),
              result.data() + x.size());
    return result;
  });
  CheckAgainstReference(kGradientError, [&](Backend& backend) {
    Values d_x = Normals(rows * width, "d_x"), d_weight = Normals(width, "d_weight");
    backend.RmsNormBackward({AsRows(x, rows),
                             weight.data(),
                             inverse.data(),
                             AsRows(d_out, rows),
                             AsRows(d_x, rows),
                             {},
                             d_weight.data()});
    d_x.insert(d_x.end(), d_weight.begin(), d_weight.end());
    return d_x;
  });
}

TEST_CASE("Swiglu: values and gradients are the reference's", "[kernels]") {
  const int64_t rows = GENERATE(1, 37), ffn = GENERATE(1, 8, 37, 512);
  Values gate_up = Normals(rows * 2 * ffn, "gate_up");
  // Gates on both flat ends of the sigmoid, and beyond the exponential's range.
  for (size_t i = 5; i < gate_up.size(); i += 5) gate_up[i] *= 40;
  const Values d_out = Normals(rows * ffn, "d_out");

  CheckAgainstReference(kForwardError, [&](Backend& backend) {
    Values out(d_out.size());
    backend.SwigluForward(AsRows(gate_up, rows), AsRows(out, rows));
    return out;
  });
  CheckAgainstReference(kGradientError, [&](Backend& backend) {
    Values d_gate_up(gate_up.size(), NAN);
    backend.SwigluBackward(AsRows(gate_up, rows), AsRows(d_out, rows), AsRows(d_gate_up, rows));
    return d_gate_up;
  });
}

TEST_CASE("CrossEntropy: the loss and its gradient are the reference's", "[kernels]") {
  const int64_t rows = GENERATE(1, 37, 515), vocabulary = GENERATE(1, 8, 37, 1001);
  const std::vector<int32_t> targets = Tokens(rows, vocabulary, "targets");
  Values logits = Normals(rows * vocabulary, "logits");
  for (float& logit : logits) logit = 5 * logit + 1000;  // e^1000 must not be taken

  CheckAgainstReference(kForwardError, [&](Backend& backend) {
    Values untouched = logits;
    const float loss = MeanLoss(backend, targets, false, AsRows(untouched, rows));
    CHECK(untouched == logits);
    return Values{loss};
  });
  CheckAgainstReference(kGradientError, [&](Backend& backend) {
    Values gradient = logits;
    gradient.push_back(MeanLoss(backend, targets, true, {gradient.data(), rows, vocabulary}));
    return gradient;
  });
}

TEST_CASE("Optimizers: parameters and moments are the reference's", "[kernels]") {
  const int64_t n = GENERATE(1, 37, 4099);
  const int64_t step = GENERATE(1, 100);
  const Values gradient = Normals(n, "gradient");

  CheckAgainstReference(kForwardError, [&](Backend& backend) {
    Values state = Normals(n, "parameters"), m = Normals(n, "m"), v = Normals(n, "v");
    for (float& value : v) value *= value;
    const UpdateRange all = {0, n, 0.5f, 0.1f};
    backend.AdamW({0.01f, 0.9f, 0.95f, 1e-8f, step}, {&all, 1},
                  {gradient.data(), state.data(), m.data(), v.data(), nullptr});
    state.insert(state.end(), m.begin(), m.end());
    state.insert(state.end(), v.begin(), v.end());
    return state;
  });
  CheckAgainstReference(kForwardError, [&](Backend& backend) {
    Values parameters = Normals(n, "parameters");
    const UpdateRange all = {0, n, 0.25f, 0};
    backend.Sgd(0.1f, {&all, 1}, {.gradient = gradient.data(), .parameters = parameters.data()});
    return parameters;
  });
}

TEST_CASE("Sums, fills and copies are the reference's", "[kernels]") {
  const int64_t n = GENERATE(0, 1, 37, 4099);
  const Values x = Normals(n, "x");

  CheckAgainstReference(1e-12, [&](Backend& backend) {
    Values y = Normals(n, "y"), filled(x.size()), copied(x.size());
    backend.Add(x.data(), y.data(), n);
    backend.Fill(filled.data(), 2.5f, n);
    backend.Copy(x.data(), copied.data(), n);
    y.insert(y.end(), filled.begin(), filled.end());
    y.insert(y.end(), copied.begin(), copied.end());
    return y;
  });
  const double want = SumOfSquares(*CreateReferenceBackend(), x.data(), n);
  for (const KernelTable* kernels : RunnableKernels()) {
    const double got = SumOfSquares(*CreateCpuBackendWith(*kernels, 1), x.data(), n);
    CHECK(got == Approx(want).epsilon(1e-13));
  }
}

}  // namespace skerry
