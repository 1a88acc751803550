// Attention of the plug-in's kernels against the reference backend: on tensor cores for head sizes
// 64 and 128, plain for the others.
#include "tests/cuda_on_host/gpu_under_test.h"
#include "tests/kernels/values.h"

namespace skerry {
namespace {

float ToBf16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
  return std::bit_cast<float>(bits);
}

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

  AttentionCase Rounded() const {
    AttentionCase rounded = *this;
    for (Values* x : {&rounded.q, &rounded.k, &rounded.v, &rounded.d_out}) {
      for (float& value : *x) value = ToBf16(value);
    }
    return rounded;
  }
  void Forward(Backend& backend) {
    backend.AttentionForward(shape, AsRows(q, tokens), AsRows(k, tokens), AsRows(v, tokens),
                             AsRows(out, tokens), log_sum_exp.data());
    backend.Synchronize();
  }
  // ∂q, ∂k, ∂v after each other.
  std::vector<Values> Backward(Backend& backend) const {
    Values d_q(q.size(), NAN), d_k(k.size(), NAN), d_v(v.size(), NAN);
    const auto rows = [this](const Values& values) { return AsRows(values, tokens); };
    backend.AttentionBackward(shape, rows(q), rows(k), rows(v), rows(out), log_sum_exp.data(),
                              rows(d_out), AsRows(d_q, tokens), AsRows(d_k, tokens),
                              AsRows(d_v, tokens));
    backend.Synchronize();
    return {d_q, d_k, d_v};
  }

  AttentionShape shape;
  int64_t tokens;
  Values q, k, v, d_out, out, log_sum_exp;
};

// How far rounding the inputs to bf16 alone takes a result; a kernel that also rounds probabilities
// may be twice as far, and at one key nothing is left to round but v.
double Allowed(double rounding) {
  return 2 * rounding + 1e-6;
}

}  // namespace

TEST_CASE("CUDA text: plain attention is the reference's", "[cuda]") {
  const AttentionShape shape =
      GENERATE(AttentionShape{3, 1, 4, 1, 32}, AttentionShape{2, 37, 4, 2, 32},
               AttentionShape{1, 70, 2, 1, 10});
  AttentionCase want(shape);
  const auto reference = CreateReferenceBackend(), gpu = TestGpu();
  want.Forward(*reference);
  const auto gradients = want.Backward(*reference);

  AttentionCase got(shape);
  InEveryOrder([&] {
    got.Forward(*gpu);
    return got.out;
  });
  CHECK(NormwiseError(got.out, want.out) <= 1e-5);
  CHECK(NormwiseError(got.log_sum_exp, want.log_sum_exp) <= 1e-5);
  const auto on_gpu = InEveryOrder([&] { return want.Backward(*gpu); });
  for (size_t i = 0; i < 3; ++i) {
    if (shape.context == 1 && i < 2) continue;  // zero but for rounding
    CHECK(NormwiseError(on_gpu[i], gradients[i]) <= 5e-5);
  }
}

TEST_CASE("CUDA text: attention on tensor cores errs as rounded inputs do", "[cuda]") {
  const AttentionShape shape =
      GENERATE(AttentionShape{2, 1, 2, 1, 64}, AttentionShape{2, 37, 4, 2, 64},
               AttentionShape{1, 64, 2, 2, 64}, AttentionShape{1, 131, 2, 1, 64},
               AttentionShape{1, 97, 4, 1, 128}, AttentionShape{2, 200, 2, 1, 128},
               AttentionShape{1, 260, 2, 2, 64}, AttentionShape{1, 300, 6, 2, 64},
               AttentionShape{1, 300, 4, 2, 128});
  INFO(shape.sequences << " x " << shape.context << ", heads " << shape.heads << "/"
                       << shape.kv_heads << " of " << shape.head_size);
  const auto reference = CreateReferenceBackend(), gpu = TestGpu();
  AttentionCase want(shape);
  AttentionCase rounded = want.Rounded(), got = want;
  want.Forward(*reference);
  rounded.Forward(*reference);

  InEveryOrder([&] {
    got.Forward(*gpu);
    return got.out;
  });
  CHECK(NormwiseError(got.out, want.out) <= Allowed(NormwiseError(rounded.out, want.out)));
  CHECK(NormwiseError(got.log_sum_exp, want.log_sum_exp) <=
        Allowed(NormwiseError(rounded.log_sum_exp, want.log_sum_exp)));

  rounded.out = want.out;
  rounded.log_sum_exp = want.log_sum_exp;
  const auto exact = want.Backward(*reference), near = rounded.Backward(*reference);
  const auto on_gpu = InEveryOrder([&] { return want.Backward(*gpu); });
  for (size_t i = 0; i < 3; ++i) {
    INFO("gradient of "
         << "qkv"[i]);
    if (shape.context == 1 && i < 2) {
      for (const float value : on_gpu[i]) CHECK(std::fabs(value) < 0.2f);  // of ∂p near 8, rounded
      continue;
    }
    CHECK(NormwiseError(on_gpu[i], exact[i]) <= Allowed(NormwiseError(near[i], exact[i])));
  }
}

TEST_CASE("CUDA text: attention's gradients do not depend on how much shared memory there is",
          "[cuda]") {
  const AttentionShape shape =
      GENERATE(AttentionShape{1, 170, 2, 1, 64}, AttentionShape{1, 170, 2, 1, 128});
  AttentionCase first(shape);
  first.Forward(*TestGpu());
  const auto gradients = first.Backward(*TestGpu());
  for (const char* kib : {"164", "228"}) {  // of an A100, and of an H200; else 100
    setenv("SKERRY_FIBER_GPU_SHARED", kib, 1);
    CHECK(first.Backward(*TestGpu()) == gradients);
    unsetenv("SKERRY_FIBER_GPU_SHARED");
  }
}

TEST_CASE("CUDA text: a token does not see what comes after it", "[cuda]") {
  const AttentionShape shape = {2, 70, 2, 1, GENERATE(64, 20)};
  constexpr size_t kChanged = 40;  // position in the first sequence
  const auto gpu = TestGpu();
  AttentionCase before(shape);
  AttentionCase after = before;
  const auto kv_width = static_cast<size_t>(shape.head_size), width = 2 * kv_width;
  for (size_t i = kChanged * kv_width; i < 70 * kv_width; ++i) {
    after.k[i] += 1;
    after.v[i] -= 1;
  }

  before.Forward(*gpu);
  after.Forward(*gpu);

  for (size_t t = 0; t < 140; ++t) {
    INFO("token " << t);
    const bool sees_change = t >= kChanged && t < 70;
    const bool differs = !std::equal(before.out.begin() + static_cast<ptrdiff_t>(t * width),
                                     before.out.begin() + static_cast<ptrdiff_t>((t + 1) * width),
                                     after.out.begin() + static_cast<ptrdiff_t>(t * width));
    CHECK(differs == sees_change);
  }
}

TEST_CASE("CUDA text: rows off 16 bytes take the plain kernel, with its small error", "[cuda]") {
  const AttentionShape shape = {1, 20, 1, 1, 64};
  AttentionCase want(shape);
  want.Forward(*CreateReferenceBackend());
  Values q(want.q.size() + 1), out(want.out.size());
  std::copy(want.q.begin(), want.q.end(), q.begin() + 1);

  TestGpu()->AttentionForward(shape, ConstMatrix{q.data() + 1, 20, 64}, AsRows(want.k, 20),
                              AsRows(want.v, 20), AsRows(out, 20), want.log_sum_exp.data());

  CHECK(NormwiseError(out, want.out) <= 1e-5);
}

}  // namespace skerry
