// Every operation but attention: the plug-in's kernels against the reference backend.
#include "tests/cuda_on_host/host_gpu.h"
#include "tests/kernels/calls.h"
#include "tests/kernels/values.h"

namespace skerry {
namespace {

constexpr double kForwardError = 1e-5, kGradientError = 5e-5;
constexpr double kProductError = 1e-3;  // TF32 rounds factors to 2^-11

template <typename Run>
void CheckAgainstReference(double error_max, Run&& run) {
  const Values want = run(*CreateReferenceBackend());
  const auto gpu = HostGpu();
  CHECK(NormwiseError(InEveryOrder([&] { return run(*gpu); }), want) <= error_max);
}

struct Sizes {
  int64_t m, n, k;
};

}  // namespace

TEST_CASE("CUDA text: products of every transpose and both betas", "[cuda]") {
  const auto [m, n, k] = GENERATE(Sizes{1, 1, 1}, Sizes{1, 37, 8}, Sizes{37, 24, 65});
  const Transpose ta = GENERATE(Transpose::kNo, Transpose::kYes);
  const Transpose tb = GENERATE(Transpose::kNo, Transpose::kYes);
  const float beta = GENERATE(0.0f, 1.0f);
  const Values a = Normals(m * k, "a"), b = Normals(k * n, "b");

  CheckAgainstReference(kProductError, [&](Backend& backend) {
    Values c = Normals(m * n, "c");
    backend.Gemm(ta, tb, AsRows(a, ta == Transpose::kYes ? k : m),
                 AsRows(b, tb == Transpose::kYes ? n : k), beta, AsRows(c, m));
    return c;
  });
}

TEST_CASE("CUDA text: embedding gathers, and adds repeated tokens in their order", "[cuda]") {
  const int64_t rows = GENERATE(1, 37, 130), width = GENERATE(1, 37, 300);
  constexpr int64_t kVocabulary = 29;
  const std::vector<int32_t> tokens = Tokens(rows, kVocabulary, "tokens");

  CheckAgainstReference(0, [&](Backend& backend) {
    const Values table = Normals(kVocabulary * width, "table");
    Values out(static_cast<size_t>(rows * width));
    backend.EmbeddingForward(tokens, AsRows(table, kVocabulary), AsRows(out, rows));
    return out;
  });
  CheckAgainstReference(0, [&](Backend& backend) {
    const Values d_out = Normals(rows * width, "d_out");
    Values d_table = Normals(kVocabulary * width, "d_table");
    backend.EmbeddingBackward(tokens, AsRows(d_out, rows), AsRows(d_table, kVocabulary));
    return d_table;
  });
}

TEST_CASE("CUDA text: RMSNorm and its gradients", "[cuda]") {
  const int64_t rows = GENERATE(1, 37), width = GENERATE(1, 37, 300);
  const Values x = Normals(rows * width, "x"), weight = Normals(width, "weight");
  const Values d_out = Normals(rows * width, "d_out");
  Values inverse(static_cast<size_t>(rows)), unused(x.size());
  Normalise(*CreateReferenceBackend(), AsRows(x, rows), weight.data(), 1e-5f, AsRows(unused, rows),
            inverse.data());

  CheckAgainstReference(kForwardError, [&](Backend& backend) {
    Values result(x.size() + inverse.size());
    Normalise(backend, AsRows(x, rows), weight.data(), 1e-5f, {result.data(), rows, width},
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

TEST_CASE("CUDA text: SwiGLU and its gradients", "[cuda]") {
  const int64_t rows = GENERATE(1, 37), ffn = GENERATE(1, 37, 64);
  Values gate_up = Normals(rows * 2 * ffn, "gate_up");
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

TEST_CASE("CUDA text: cross-entropy and its gradient, in place", "[cuda]") {
  const int64_t rows = GENERATE(1, 37), vocabulary = GENERATE(1, 37, 1001);
  const std::vector<int32_t> targets = Tokens(rows, vocabulary, "targets");
  Values logits = Normals(rows * vocabulary, "logits");
  for (float& logit : logits) logit = 5 * logit + 1000;

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

TEST_CASE("CUDA text: rotation and back", "[cuda]") {
  const AttentionShape shape =
      GENERATE(AttentionShape{1, 1, 4, 4, 8}, AttentionShape{3, 37, 4, 2, 32},
               AttentionShape{2, 50, 2, 1, 10});
  const bool inverse = GENERATE(false, true);
  const int64_t tokens = shape.sequences * shape.context;
  CheckAgainstReference(kForwardError, [&](Backend& backend) {
    Values q = Normals(tokens * shape.heads * shape.head_size, "q");
    Values k = Normals(tokens * shape.kv_heads * shape.head_size, "k");
    backend.Rope(shape, 10000, inverse, AsRows(q, tokens), AsRows(k, tokens));
    q.insert(q.end(), k.begin(), k.end());
    return q;
  });
}

TEST_CASE("CUDA text: a bias and its gradient", "[cuda]") {
  const int64_t rows = GENERATE(1, 70), columns = GENERATE(5, 300);
  const Values bias = Normals(columns, "bias");
  CheckAgainstReference(kForwardError, [&](Backend& backend) {
    Values x = Normals(rows * columns, "x"), sums(static_cast<size_t>(columns), 7.0f);
    backend.BiasBackward(AsRows(x, rows), sums.data());
    backend.AddBias(bias.data(), AsRows(x, rows));
    x.insert(x.end(), sums.begin(), sums.end());
    return x;
  });
}

TEST_CASE("CUDA text: optimizers", "[cuda]") {
  const int64_t n = GENERATE(1, 37, 4099);
  const int64_t step = GENERATE(1, 100);
  const Values gradient = Normals(n, "gradient");
  const std::vector<UpdateRange> ranges = {{0, n / 3, 0.25f, 0.1f}, {n / 3, n - n / 3, 0.5f, 0}};

  CheckAgainstReference(kForwardError, [&](Backend& backend) {
    Values state = Normals(n, "parameters"), m = Normals(n, "m"), v = Normals(n, "v");
    for (float& value : v) value *= value;
    backend.AdamW({0.01f, 0.9f, 0.95f, 1e-8f, step}, ranges,
                  {gradient.data(), state.data(), m.data(), v.data()});
    state.insert(state.end(), m.begin(), m.end());
    state.insert(state.end(), v.begin(), v.end());
    return state;
  });
  CheckAgainstReference(kForwardError, [&](Backend& backend) {
    Values parameters = Normals(n, "parameters");
    backend.Sgd(0.1f, ranges, {gradient.data(), parameters.data()});
    return parameters;
  });
}

TEST_CASE("CUDA text: sums, fills and copies", "[cuda]") {
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
  CHECK(SumOfSquares(*HostGpu(), x.data(), n) == Approx(want).epsilon(1e-13));
}

}  // namespace skerry
