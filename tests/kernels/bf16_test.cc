// bf16: every operation of the CPU backend beside the reference on the same rounded operands. What
// the reference loses by rounding its results alone is the yardstick; the CPU may lose twice that.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kernels/bfloat16.h"
#include "tests/kernels/suite.h"
#include "tests/kernels/values.h"

namespace skerry {
namespace {

constexpr Transpose kNo = Transpose::kNo, kYes = Transpose::kYes;

// Random numbers as bf16; the same values as a float32 matrix.
class Rounded {
 public:
  Rounded(int64_t rows, int64_t columns, const std::string& name)
      : rows_(rows), columns_(columns), values_(static_cast<size_t>(rows * columns)) {
    const Values draw = Normals(rows * columns, name);
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = ToBf16(draw[i]);
  }
  Tensor view() { return {values_.data(), rows_, columns_, columns_, DType::kBfloat16}; }
  Values AsFloats() const {
    Values floats;
    for (const Bf16 value : values_) floats.push_back(ToFloat(value));
    return floats;
  }

 private:
  int64_t rows_, columns_;
  std::vector<Bf16> values_;
};

// Null, and the test has nothing to say, where the processor has no bf16.
std::unique_ptr<Backend> Bf16Cpu(int threads = 1) {
  auto backend = CreateCpuBackendWith(BestKernels(), threads, DType::kBfloat16);
  if (backend->compute_type() == DType::kBfloat16) return backend;
  WARN("this processor multiplies no bf16");
  return nullptr;
}

// `run(backend, operands in bf16 or not)` returns results. Exact: float32 operands of the same
// values through the reference.
template <typename Run>
void CheckTwiceTheRounding(Run&& run) {
  const auto cpu = Bf16Cpu();
  if (cpu == nullptr) return;
  const auto reference = CreateReferenceBackend(DType::kBfloat16);
  const std::vector<Values> exact = run(*CreateReferenceBackend(), false);
  const std::vector<Values> rounded = run(*reference, true), got = run(*cpu, true);
  for (size_t i = 0; i < exact.size(); ++i) {
    INFO("result " << i);
    CHECK(NormwiseError(got[i], exact[i]) <= 2 * NormwiseError(rounded[i], exact[i]) + 1e-5);
  }
}

// An operand or a result of either type.
class Operand {
 public:
  Operand(int64_t rows, int64_t columns, const std::string& name, bool as_bf16)
      : rounded_(rows, columns, name),
        floats_(rounded_.AsFloats()),
        as_bf16_(as_bf16),
        rows_(rows) {}
  operator Tensor() {
    return as_bf16_ ? rounded_.view() : Tensor(AsRows(floats_, rows_));
  }                                                 // NOLINT
  operator ConstTensor() { return Tensor(*this); }  // NOLINT
  Values values() const { return as_bf16_ ? rounded_.AsFloats() : floats_; }

 private:
  Rounded rounded_;
  Values floats_;
  bool as_bf16_;
  int64_t rows_;
};

}  // namespace

TEST_CASE("Bf16: products of every form, into bf16 and into float32", "[kernels][bf16]") {
  const int64_t m = GENERATE(1, 37, 130), n = GENERATE(7, 64), k = GENERATE(8, 515);
  const bool ta = GENERATE(false, true), tb = GENERATE(false, true);
  CheckTwiceTheRounding([&](Backend& backend, bool bf16) {
    Operand a(ta ? k : m, ta ? m : k, "a", bf16), b(tb ? n : k, tb ? k : n, "b", bf16);
    Operand c(m, n, "c", bf16);
    Values sum = Normals(m * n, "sum");
    backend.Gemm(ta ? kYes : kNo, tb ? kYes : kNo, a, b, 0, c);
    backend.Gemm(ta ? kYes : kNo, tb ? kYes : kNo, a, b, 1, AsRows(sum, m));
    return std::vector<Values>{c.values(), sum};
  });
}

TEST_CASE("Bf16: norms, forward with a sum and backward", "[kernels][bf16]") {
  const int64_t rows = GENERATE(1, 37), width = GENERATE(1, 37, 192);
  CheckTwiceTheRounding([&](Backend& backend, bool bf16) {
    const Values x = Normals(rows * width, "x"), addend = Normals(rows * width, "addend");
    const Values weight = Normals(width, "weight");
    Values sum(x.size()), inverse(static_cast<size_t>(rows));
    Operand out(rows, width, "out", bf16), d_out(rows, width, "d_out", bf16);
    Operand rounded(rows, width, "rounded", bf16);
    backend.RmsNormForward({AsRows(x, rows), AsRows(addend, rows), AsRows(sum, rows), weight.data(),
                            1e-5f, out, inverse.data()});
    Values d_x = Normals(rows * width, "d_x"), d_weight = Normals(width, "d_weight");
    backend.RmsNormBackward({AsRows(sum, rows), weight.data(), inverse.data(), d_out,
                             AsRows(d_x, rows), rounded, d_weight.data()});
    return std::vector<Values>{sum, out.values(), inverse, d_x, rounded.values(), d_weight};
  });
}

TEST_CASE("Bf16: rotation, SwiGLU and casts", "[kernels][bf16]") {
  const AttentionShape shape =
      GENERATE(AttentionShape{1, 1, 4, 4, 8}, AttentionShape{2, 37, 4, 2, 32},
               AttentionShape{1, 50, 2, 1, 10});
  const int64_t tokens = shape.sequences * shape.context;
  CheckTwiceTheRounding([&](Backend& backend, bool bf16) {
    Operand q(tokens, shape.heads * shape.head_size, "q", bf16);
    Operand k(tokens, shape.kv_heads * shape.head_size, "k", bf16);
    backend.Rope(shape, 10000, false, q, k);
    Operand gate_up(tokens, 2 * 37, "gate_up", bf16), d_gate_up(tokens, 2 * 37, "d", bf16);
    Operand product(tokens, 37, "product", bf16), d_product(tokens, 37, "d_product", bf16);
    backend.SwigluForward(gate_up, product);
    backend.SwigluBackward(gate_up, d_product, d_gate_up);
    return std::vector<Values>{q.values(), k.values(), product.values(), d_gate_up.values()};
  });
}

TEST_CASE("Bf16: gates far from zero are open or closed, and one that is NaN stays so",
          "[kernels][bf16][error]") {
  const auto cpu = Bf16Cpu();
  if (cpu == nullptr) return;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Values gates = {0, 1, -1, 20, -20, 88, -87, 100, -100, 1e4f, -1e4f, 3e38f, kInfinity, kNan};
  Rounded gate_up(1, 2 * 17, "x"), out(1, 17, "out");
  auto* const values = static_cast<Bf16*>(gate_up.view().values);
  for (size_t i = 0; i < 17; ++i) {
    values[i] = ToBf16(gates[i % gates.size()]);  // in a whole vector, and beside it
    values[17 + i] = ToBf16(1);
  }
  cpu->SwigluForward(gate_up.view(), out.view());
  for (size_t i = 0; i < 17; ++i) {
    const double gate = ToFloat(values[i]), want = gate / (1 + std::exp(-gate));
    const float got = out.AsFloats()[i];
    INFO("gate " << gate << " gave " << got);
    CHECK(std::isnan(got) == std::isnan(gate));
    if (std::isfinite(want))
      CHECK(std::abs(got - want) <= 0.005 * std::abs(want) + 1e-37 * std::abs(gate));
    if (std::isinf(want)) CHECK(std::isinf(got));
  }
}

TEST_CASE("Bf16: a cast rounds to nearest even, and back is exact", "[kernels][bf16]") {
  const auto cpu = Bf16Cpu(2);
  if (cpu == nullptr) return;
  const Values x = Normals(37 * 1001, "x");
  Rounded want(37, 1001, "x"), got(37, 1001, "other");
  Values back(x.size());
  cpu->Cast(AsRows(x, 37), got.view());
  cpu->Cast(got.view(), AsRows(back, 37));
  CHECK(got.AsFloats() == want.AsFloats());
  CHECK(back == want.AsFloats());
}

TEST_CASE("Bf16: attention and its gradients", "[kernels][bf16][attention]") {
  const AttentionShape s =
      GENERATE(AttentionShape{1, 1, 4, 4, 8}, AttentionShape{2, 37, 4, 2, 32},
               AttentionShape{1, 113, 4, 1, 64}, AttentionShape{3, 37, 2, 2, 9},
               AttentionShape{1, 515, 2, 1, 32}, AttentionShape{1, 289, 1, 1, 128});
  const int64_t tokens = s.sequences * s.context;
  const int64_t width = s.heads * s.head_size, kv = s.kv_heads * s.head_size;
  CheckTwiceTheRounding([&](Backend& backend, bool bf16) {
    Operand q(tokens, width, "q", bf16), k(tokens, kv, "k", bf16), v(tokens, kv, "v", bf16);
    Operand out(tokens, width, "out", bf16), d_out(tokens, width, "d_out", bf16);
    Values lse(static_cast<size_t>(tokens * s.heads));
    backend.AttentionForward(s, q, k, v, out, lse.data());
    std::vector<Values> results = {out.values(), lse};
    // With one key the gradients of q and k are zero but for rounding.
    if (s.context == 1) return results;
    Operand d_q(tokens, width, "d_q", bf16), d_k(tokens, kv, "d_k", bf16);
    Operand d_v(tokens, kv, "d_v", bf16);
    backend.AttentionBackward(s, q, k, v, out, lse.data(), d_out, d_q, d_k, d_v);
    for (const Operand* d : {&d_q, &d_k, &d_v}) results.push_back(d->values());
    return results;
  });
}

TEST_CASE("Bf16: attention over columns of one product is attention", "[kernels][bf16]") {
  const auto cpu = Bf16Cpu();
  if (cpu == nullptr) return;
  const AttentionShape s = {2, 37, 4, 2, 16};
  Rounded qkv(74, 128, "qkv"), together(74, 64, "out"), apart(74, 64, "out");
  Rounded q(74, 64, "q"), k(74, 32, "k"), v(74, 32, "v");
  Values lse(74 * 4);
  const Tensor all = qkv.view();
  int64_t first = 0;
  for (Rounded* part : {&q, &k, &v}) {
    Values floats(static_cast<size_t>(part->view().size()));
    cpu->Cast(all.Columns(first, part->view().columns), AsRows(floats, 74));
    cpu->Cast(AsRows(floats, 74), part->view());
    first += part->view().columns;
  }
  cpu->AttentionForward(s, all.Columns(0, 64), all.Columns(64, 32), all.Columns(96, 32),
                        together.view(), lse.data());
  cpu->AttentionForward(s, q.view(), k.view(), v.view(), apart.view(), lse.data());
  CHECK(together.AsFloats() == apart.AsFloats());
}

TEST_CASE("Bf16: loss with gradient, and AdamW with the rounded copy", "[kernels][bf16]") {
  const int64_t rows = GENERATE(1, 37), vocabulary = GENERATE(8, 1001);
  const float z_loss = GENERATE(0.0f, 1e-2f);
  const std::vector<int32_t> targets = Tokens(rows, vocabulary, "targets");
  CheckTwiceTheRounding([&](Backend& backend, bool bf16) {
    Values logits = Normals(rows * vocabulary, "logits"), losses(targets.size());
    Operand gradient(rows, vocabulary, "gradient", bf16);
    backend.CrossEntropy(targets, {0.25f, z_loss}, AsRows(logits, rows), gradient, losses.data());
    Values part = Normals(rows * vocabulary, "part"), part_losses(targets.size());
    Values statistics(static_cast<size_t>(2 * 3 * rows), 1.0f);  // of another part, too
    backend.LogitStatistics(targets, AsRows(part, rows), statistics.data());
    Operand part_gradient(rows, vocabulary, "part gradient", bf16);
    backend.CrossEntropy(targets, {0.25f, z_loss, statistics.data(), 2}, AsRows(part, rows),
                         part_gradient, part_losses.data());
    Values parameters = Normals(100, "p"), m(100), v(100);
    const Values g = Normals(100, "g");
    Operand copy(1, 100, "copy", bf16);
    const UpdateRange ranges[] = {{0, 37, 0.5f, 0.1f}, {37, 63, 1, 0}};
    Bf16* const rounded = bf16 ? static_cast<Bf16*>(Tensor(copy).values) : nullptr;
    backend.AdamW({1e-2f, 0.9f, 0.95f, 1e-8f, 3}, ranges,
                  {g.data(), parameters.data(), m.data(), v.data(), rounded});
    return std::vector<Values>{
        losses,      gradient.values(),      parameters,
        part_losses, part_gradient.values(), bf16 ? copy.values() : parameters};
  });
}

TEST_CASE("Bf16: NaN is never hidden", "[kernels][bf16][error]") {
  const auto cpu = Bf16Cpu();
  if (cpu == nullptr) return;
  Rounded q(18, 2, "q"), k(18, 2, "k"), v(18, 2, "v"), out(18, 2, "out");
  Values lse(18);
  static_cast<Bf16*>(k.view().values)[2 * 5] = ToBf16(NAN);
  cpu->AttentionForward({1, 18, 1, 1, 2}, q.view(), k.view(), v.view(), out.view(), lse.data());
  const Values values = out.AsFloats();
  CHECK(std::isnan(values[2 * 5]));
  CHECK(std::isnan(values[2 * 17]));
  CHECK_FALSE(std::isnan(values[2 * 4]));
}

}  // namespace skerry
