// Rotation and attention of each CPU backend against the reference backend.
#include <catch2/catch.hpp>

#include "tests/kernels/suite.h"
#include "tests/kernels/values.h"

namespace skerry {
namespace {

// Every letter of an attention's inputs; what the backward pass needs comes from the reference, so
// that each pass is judged alone.
struct AttentionCase {
  explicit AttentionCase(const AttentionShape& s)
      : shape(s),
        tokens(s.sequences * s.context),
        q(Normals(tokens * s.heads * s.head_size, "q")),
        k(Normals(tokens * s.kv_heads * s.head_size, "k")),
        v(Normals(tokens * s.kv_heads * s.head_size, "v")),
        d_out(Normals(tokens * s.heads * s.head_size, "d_out")),
        out(q.size(), NAN),
        log_sum_exp(static_cast<size_t>(tokens * s.heads), NAN) {}

  void Forward(Backend& backend) {
    backend.AttentionForward(shape, AsRows(q, tokens), AsRows(k, tokens), AsRows(v, tokens),
                             AsRows(out, tokens), log_sum_exp.data());
  }
  std::vector<Values> Backward(Backend& backend) const {
    Values d_q(q.size(), NAN), d_k(k.size(), NAN), d_v(v.size(), NAN);
    const auto rows = [this](const Values& values) { return AsRows(values, tokens); };
    backend.AttentionBackward(shape, rows(q), rows(k), rows(v), rows(out), log_sum_exp.data(),
                              rows(d_out), AsRows(d_q, tokens), AsRows(d_k, tokens),
                              AsRows(d_v, tokens));
    return {d_q, d_k, d_v};
  }

  AttentionShape shape;
  int64_t tokens;
  Values q, k, v, d_out, out, log_sum_exp;
};

// {sequences, context, heads, kv heads, head size}
AttentionShape AnyShape() {
  return GENERATE(AttentionShape{1, 1, 4, 4, 8}, AttentionShape{3, 1, 4, 1, 32},
                  AttentionShape{2, 37, 4, 2, 32}, AttentionShape{1, 37, 4, 1, 64},
                  AttentionShape{3, 37, 2, 2, 8}, AttentionShape{2, 50, 2, 1, 10},
                  AttentionShape{1, 515, 1, 1, 8}, AttentionShape{1, 515, 2, 1, 32},
                  AttentionShape{1, 289, 1, 1, 64});
}

void Describe(const AttentionShape& s) {
  UNSCOPED_INFO(s.sequences << " sequences of " << s.context << ", heads " << s.heads << "/"
                            << s.kv_heads << " of " << s.head_size);
}

}  // namespace

TEST_CASE("Attention: values and gradients are the reference's", "[kernels][attention]") {
  const AttentionShape shape = AnyShape();
  Describe(shape);
  AttentionCase want(shape);
  const auto reference = CreateReferenceBackend();
  want.Forward(*reference);
  const std::vector<Values> gradients = want.Backward(*reference);

  for (const KernelTable* kernels : RunnableKernels()) {
    INFO(kernels->name);
    const auto cpu = CreateCpuBackendWith(*kernels, 1);
    AttentionCase got(shape);
    got.Forward(*cpu);
    CHECK(NormwiseError(got.out, want.out) <= kForwardError);
    CHECK(NormwiseError(got.log_sum_exp, want.log_sum_exp) <= kForwardError);
    const std::vector<Values> cpu_gradients = want.Backward(*cpu);
    // With one key a softmax is constant: the gradients of q and k are zero but for rounding.
    const bool constant = shape.context == 1;
    for (const size_t i : {0u, 1u}) {
      const double scale = constant ? 1e-7 * std::sqrt(static_cast<double>(want.q.size())) : 1;
      const Values zeros(cpu_gradients[i].size());
      CHECK(NormwiseError(cpu_gradients[i], constant ? zeros : gradients[i]) <=
            (constant ? 100 * scale : kGradientError));
    }
    CHECK(NormwiseError(cpu_gradients[2], gradients[2]) <= kGradientError);
  }
}

TEST_CASE("Attention: large scores do not overflow", "[kernels][attention]") {
  const AttentionShape shape = {1, 40, 2, 1, 16};
  AttentionCase want(shape);
  for (float& value : want.q) value *= 100;
  AttentionCase got = want;
  want.Forward(*CreateReferenceBackend());

  got.Forward(*CreateCpuBackend(1));

  CHECK(NormwiseError(got.out, want.out) <= 1e-3);  // scores near 400 carry errors near 1e-5 each
  CHECK(NormwiseError(got.log_sum_exp, want.log_sum_exp) <= kForwardError);
}

TEST_CASE("Attention: a token does not see what comes after it", "[kernels][attention]") {
  const AttentionShape shape = {2, 37, 4, 2, 8};
  constexpr size_t kChanged = 20;  // position in the first sequence
  const auto backend = CreateCpuBackend(1);
  AttentionCase before(shape);
  AttentionCase after = before;
  const size_t kv_width = 16, width = 32;
  for (size_t i = kChanged * kv_width; i < 37 * kv_width; ++i) {
    after.k[i] += 1;
    after.v[i] -= 1;
  }

  before.Forward(*backend);
  after.Forward(*backend);

  const auto row = [&](const Values& out, size_t t) {
    return Values(out.begin() + static_cast<ptrdiff_t>(t * width),
                  out.begin() + static_cast<ptrdiff_t>((t + 1) * width));
  };
  for (size_t t = 0; t < 74; ++t) {
    INFO("token " << t);
    const bool sees_change = t >= kChanged && t < 37;
    CHECK((row(before.out, t) != row(after.out, t)) == sees_change);
  }
}

TEST_CASE("Rope: stretched angles are the reference's, and those of LLaMA 3.1", "[kernels]") {
  const AttentionShape shape = {1, 40, 2, 1, 32};
  RopeAngles angles(500000);
  angles.scaling = GENERATE(RopeScaling::kLinear, RopeScaling::kLlama3);
  angles.factor = 8;
  angles.original_context = 64;
  const auto turned = [&](Backend& backend) {
    Values q = Normals(40 * 64, "q"), k = Normals(40 * 32, "k");
    backend.Rope(shape, angles, false, AsRows(q, 40), AsRows(k, 40));
    return q;
  };

  CHECK(NormwiseError(turned(*CreateCpuBackend(1)), turned(*CreateReferenceBackend())) < 1e-6);

  // Fast pairs keep their angle with llama3, slow ones turn an eighth as fast.
  const double first = angles.scaling == RopeScaling::kLinear ? 1 / 8.0 : 1;
  CHECK(angles.Frequency(0, 32) == Approx(first));
  CHECK(angles.Frequency(15, 32) == Approx(RopeAngles(500000).Frequency(15, 32) / 8));
}

TEST_CASE("Bias: added to every row, and its gradient the sum of rows, as the reference says",
          "[kernels]") {
  const int64_t rows = GENERATE(1, 3, 70), columns = GENERATE(1, 6, 37, 600);
  const int threads = GENERATE(1, 3);
  const Values x = Normals(rows * columns, "x"), bias = Normals(columns, "bias");
  const auto both = [&](Backend& backend) {
    Values y = x, sums(static_cast<size_t>(columns), 7.0f);
    backend.AddBias(bias.data(), AsRows(y, rows));
    backend.BiasBackward(AsRows(x, rows), sums.data());
    y.insert(y.end(), sums.begin(), sums.end());
    return y;
  };

  CHECK(NormwiseError(both(*CreateCpuBackend(threads)), both(*CreateReferenceBackend())) < 1e-6);
}

TEST_CASE("Rope: rotation is the reference's, and its inverse brings back", "[kernels]") {
  const AttentionShape shape =
      GENERATE(AttentionShape{1, 1, 4, 4, 8}, AttentionShape{3, 37, 4, 2, 32},
               AttentionShape{2, 50, 2, 1, 10}, AttentionShape{1, 515, 2, 1, 64});
  Describe(shape);
  const bool inverse = GENERATE(false, true);
  const int64_t tokens = shape.sequences * shape.context;
  const auto rotated = [&](Backend& backend, bool and_back) {
    Values q = Normals(tokens * shape.heads * shape.head_size, "q");
    Values k = Normals(tokens * shape.kv_heads * shape.head_size, "k");
    backend.Rope(shape, 10000, inverse, AsRows(q, tokens), AsRows(k, tokens));
    if (and_back) backend.Rope(shape, 10000, !inverse, AsRows(q, tokens), AsRows(k, tokens));
    q.insert(q.end(), k.begin(), k.end());
    return q;
  };
  Values unturned = Normals(tokens * shape.heads * shape.head_size, "q");
  const Values k = Normals(tokens * shape.kv_heads * shape.head_size, "k");
  unturned.insert(unturned.end(), k.begin(), k.end());
  const Values want = rotated(*CreateReferenceBackend(), false);

  for (const KernelTable* kernels : RunnableKernels()) {
    INFO(kernels->name);
    const auto backend = CreateCpuBackendWith(*kernels, 1);
    CHECK(NormwiseError(rotated(*backend, false), want) <= kForwardError);
    CHECK(NormwiseError(rotated(*backend, true), unturned) <= kForwardError);
  }
}

}  // namespace skerry
