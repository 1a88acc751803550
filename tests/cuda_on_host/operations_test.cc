// Every operation but attention: the plug-in's kernels against the reference backend.
#include "tests/kernels/operations.h"

#include "kernels/bfloat16.h"
#include "tests/cuda_on_host/gpu_under_test.h"

namespace skerry {
namespace {

constexpr double kForwardError = 1e-5, kGradientError = 5e-5;
constexpr double kProductError = 1e-3;  // TF32 rounds factors to 2^-11

template <typename Run>
void CheckAgainstReference(double error_max, Run&& run) {
  const Values want = run(*CreateReferenceBackend());
  const auto gpu = TestGpu();
  CHECK(NormwiseError(InEveryOrder([&] { return run(*gpu); }), want) <= error_max);
}

}  // namespace

TEST_CASE("CUDA text: products of every transpose and both betas", "[cuda]") {
  using operations::Sizes;
  const auto sizes = GENERATE(Sizes{1, 1, 1}, Sizes{1, 37, 8}, Sizes{37, 24, 65});
  const Transpose ta = GENERATE(Transpose::kNo, Transpose::kYes);
  const Transpose tb = GENERATE(Transpose::kNo, Transpose::kYes);
  const float beta = GENERATE(0.0f, 1.0f);
  CheckAgainstReference(kProductError, [&](Backend& backend) {
    return operations::Product(backend, sizes, ta, tb, beta);
  });
}

TEST_CASE("CUDA text: embedding gathers, and adds repeated tokens in their order", "[cuda]") {
  const int64_t rows = GENERATE(1, 37, 130), width = GENERATE(1, 37, 300);
  CheckAgainstReference(
      0, [&](Backend& backend) { return operations::Embedding(backend, rows, width); });
  CheckAgainstReference(
      0, [&](Backend& backend) { return operations::EmbeddingGradient(backend, rows, width); });
  CheckAgainstReference(
      0, [&](Backend& backend) { return operations::EmbeddingOfPart(backend, rows, width); });
}

// Widths off packs, of one to eight packs a thread, and of more than a block holds.
TEST_CASE("CUDA text: RMSNorm and its gradients", "[cuda]") {
  const auto [rows, width] = GENERATE(table<int64_t, int64_t>(
      {{1, 1}, {37, 37}, {1, 300}, {150, 300}, {37, 1028}, {9, 2052}, {5, 4100}, {3, 8196}}));
  CheckAgainstReference(kForwardError,
                        [&](Backend& backend) { return operations::Norm(backend, rows, width); });
  CheckAgainstReference(kGradientError, [&](Backend& backend) {
    return operations::NormGradients(backend, rows, width);
  });
}

TEST_CASE("CUDA text: SwiGLU and its gradients", "[cuda]") {
  const int64_t rows = GENERATE(1, 37), ffn = GENERATE(1, 37, 64);
  CheckAgainstReference(kForwardError,
                        [&](Backend& backend) { return operations::Swiglu(backend, rows, ffn); });
  CheckAgainstReference(kGradientError, [&](Backend& backend) {
    return operations::SwigluGradient(backend, rows, ffn);
  });
}

TEST_CASE("CUDA text: cross-entropy and its gradient, in place", "[cuda]") {
  const auto [rows, vocabulary] = GENERATE(
      table<int64_t, int64_t>({{1, 1}, {37, 37}, {37, 1001}, {37, 1032}, {2, 9000}, {2, 9001}}));
  CheckAgainstReference(kForwardError, [&](Backend& backend) {
    const auto scored = operations::CrossEntropy(backend, rows, vocabulary, false);
    CHECK(scored.logits == operations::Logits(rows, vocabulary));
    return Values{scored.loss, operations::CrossEntropy(backend, rows, vocabulary, true).loss};
  });
  CheckAgainstReference(kGradientError, [&](Backend& backend) {
    return operations::CrossEntropy(backend, rows, vocabulary, true).logits;
  });
}

TEST_CASE("CUDA text: cross-entropy of parts of a vocabulary", "[cuda]") {
  const int64_t rows = GENERATE(1, 37);
  const auto sizes =
      GENERATE(values<std::vector<int64_t>>({{1, 1}, {8, 11}, {1, 300, 37}, {1024, 1032, 4}}));
  const int64_t vocabulary = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const auto want = operations::WholeLosses(*CreateReferenceBackend(), rows, vocabulary);
  const auto gpu = TestGpu();
  const auto of_parts = [&] { return operations::LossesOfParts(*gpu, rows, sizes); };
  CHECK(NormwiseError(InEveryOrder([&] { return of_parts().losses; }), want.losses) <=
        kForwardError);
  CHECK(NormwiseError(InEveryOrder([&] { return of_parts().gradient; }), want.gradient) <=
        kGradientError);
  const auto whole = operations::WholeLosses(*gpu, rows, vocabulary);
  const auto one_part = operations::LossesOfParts(*gpu, rows, {vocabulary});
  CHECK(SameBits(one_part.losses, whole.losses));
  CHECK(SameBits(one_part.gradient, whole.gradient));
}

TEST_CASE("CUDA text: rotation and back", "[cuda]") {
  const AttentionShape shape =
      GENERATE(AttentionShape{1, 1, 4, 4, 8}, AttentionShape{3, 37, 4, 2, 32},
               AttentionShape{2, 50, 2, 1, 10});
  const bool inverse = GENERATE(false, true);
  CheckAgainstReference(kForwardError, [&](Backend& backend) {
    return operations::Rotation(backend, shape, inverse);
  });
}

TEST_CASE("CUDA text: a bias and its gradient", "[cuda]") {
  const int64_t rows = GENERATE(1, 70, 9000), columns = GENERATE(5, 64, 300);
  if (rows > 70 && columns > 5) return;
  CheckAgainstReference(kForwardError,
                        [&](Backend& backend) { return operations::Bias(backend, rows, columns); });
}

TEST_CASE("CUDA text: optimizers", "[cuda]") {
  const int64_t n = GENERATE(1, 37, 1200, 4099), step = GENERATE(1, 100);
  CheckAgainstReference(kForwardError,
                        [&](Backend& backend) { return operations::AdamW(backend, n, step); });
  CheckAgainstReference(kForwardError,
                        [&](Backend& backend) { return operations::Sgd(backend, n); });
}

TEST_CASE("CUDA text: an optimizer's ranges, long and short, in packs and not", "[cuda]") {
  const std::vector<UpdateRange> ranges = {
      {0, 8, 0.5f, 0.1f},  {8, 5000, 0.25f, 0}, {5008, 0, 1, 0},     {5008, 301, 0.5f, 0},
      {5309, 40, 1, 0.1f}, {5349, 3, 1, 0},     {5400, 600, 1, 0.1f}};
  constexpr int64_t kValues = 6000;
  const bool is_sgd = GENERATE(false, true);
  CheckAgainstReference(kForwardError, [&](Backend& backend) {
    const Values gradient = Normals(kValues, "gradient");
    Values p = Normals(kValues, "parameters"), m = Normals(kValues, "m"), v(kValues, 1.0f);
    std::vector<Bf16> rounded(kValues);
    UpdateArrays arrays = {gradient.data(), p.data(), nullptr, nullptr, rounded.data()};
    if (is_sgd) {
      backend.Sgd(0.1f, ranges, arrays);
    } else {
      arrays.m = m.data();
      arrays.v = v.data();
      backend.AdamW({0.01f, 0.9f, 0.95f, 1e-8f, 3}, ranges, arrays);
    }
    for (const UpdateRange& range : ranges) {
      for (int64_t i = range.offset; i < range.offset + range.size; ++i) {
        const auto at = static_cast<size_t>(i);
        CHECK(ToFloat(rounded[at]) == ToFloat(ToBf16(p[at])));
      }
    }
    return operations::Append(operations::Append(p, m), v);
  });
}

TEST_CASE("CUDA text: sums, fills and copies", "[cuda]") {
  const int64_t n = GENERATE(0, 1, 37, 4096, 4099);
  CheckAgainstReference(
      1e-12, [&](Backend& backend) { return operations::SumsFillsAndCopies(backend, n); });
  const Values x = Normals(n, "x");
  const double want = SumOfSquares(*CreateReferenceBackend(), x.data(), n);
  CHECK(SumOfSquares(*TestGpu(), x.data(), n) == Approx(want).epsilon(1e-13));
}

TEST_CASE("CUDA text: what does not begin on a border of 16 bytes, and more rows than a grid has",
          "[cuda]") {
  const auto gpu = TestGpu();
  constexpr int64_t kValues = 64, kRows = 70'000;
  const Values x = Normals(kValues + 1, "x");
  Values y = Normals(kValues + 1, "y"), want = y;
  for (size_t i = 1; i < want.size(); ++i) want[i] += x[i];
  gpu->Add(x.data() + 1, y.data() + 1, kValues);
  CHECK(y == want);
  Values tall(kRows, 1.0f);
  const Values bias = {2};  // not on the stack, which a GPU does not reach
  gpu->AddBias(bias.data(), AsRows(tall, kRows));
  CHECK(tall == Values(kRows, 3.0f));
}

TEST_CASE("CUDA text: nothing to do is no failure", "[cuda]") {
  const auto gpu = TestGpu();
  Values table(8), losses(1);
  gpu->EmbeddingForward({}, AsRows(table, 1), {table.data(), 0, 8});
  gpu->EmbeddingBackward({}, {table.data(), 0, 8}, AsRows(table, 1));
  gpu->CrossEntropy({}, {}, {table.data(), 0, 8}, {}, losses.data());
  GpuText why = {};
  const GpuHandle handle = GpuOf(*gpu);
  CHECK(handle.table->synchronize(handle.device, &why));
  CHECK(std::string(why.text).empty());
}

}  // namespace skerry
