// Small cases worked by hand: what the reference itself is held to. The CPU backend must agree.
#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/calls.h"
#include "tests/kernels/values.h"

namespace skerry {
namespace {

std::unique_ptr<Backend> Either() {
  return GENERATE(0, 1) == 0 ? CreateReferenceBackend() : CreateCpuBackend(1);
}

}  // namespace

TEST_CASE("By hand: a product of two by two", "[kernels][hand]") {
  const auto backend = Either();
  const Values a = {1, 2, 3, 4}, b = {5, 6, 7, 8};
  Values c(4);

  backend->Gemm(Transpose::kNo, Transpose::kNo, AsRows(a, 2), AsRows(b, 2), 0, AsRows(c, 2));
  CHECK(c == Values{19, 22, 43, 50});
  backend->Gemm(Transpose::kYes, Transpose::kNo, AsRows(a, 2), AsRows(b, 2), 1, AsRows(c, 2));
  CHECK(c == Values{19 + 26, 22 + 30, 43 + 38, 50 + 44});
}

TEST_CASE("By hand: RMSNorm of 3 and 4", "[kernels][hand]") {
  const Values x = {3, 4}, weight = {1, 10};
  Values out(2), inverse(1);

  Normalise(*Either(), AsRows(x, 1), weight.data(), 0, AsRows(out, 1), inverse.data());

  CHECK(inverse[0] == Approx(std::sqrt(2.0 / 25)));
  CHECK(out[0] == Approx(3 * std::sqrt(2.0 / 25)));
  CHECK(out[1] == Approx(40 * std::sqrt(2.0 / 25)));
}

TEST_CASE("By hand: the second position turns the first pair by one radian", "[kernels][hand]") {
  Values q = {1, 2, 1, 2}, k = {0, 1, 1, 0};

  Either()->Rope({1, 2, 1, 1, 2}, 10000, false, AsRows(q, 2), AsRows(k, 2));

  CHECK(q[0] == 1);
  CHECK(q[1] == 2);
  CHECK(q[2] == Approx(std::cos(1) - 2 * std::sin(1)));
  CHECK(q[3] == Approx(2 * std::cos(1) + std::sin(1)));
  CHECK(k[2] == Approx(std::cos(1)));
  CHECK(k[3] == Approx(std::sin(1)));
}

TEST_CASE("By hand: attention over equal keys is the mean of what was seen", "[kernels][hand]") {
  const Values q = {1, 2, 3}, k = {0, 0, 0}, v = {3, 5, 10};
  Values out(3), log_sum_exp(3);

  Either()->AttentionForward({1, 3, 1, 1, 1}, AsRows(q, 3), AsRows(k, 3), AsRows(v, 3),
                             AsRows(out, 3), log_sum_exp.data());

  CHECK(out[0] == Approx(3));
  CHECK(out[1] == Approx(4));
  CHECK(out[2] == Approx(6));
  CHECK(log_sum_exp[2] == Approx(std::log(3.0)));
}

TEST_CASE("By hand: equal logits cost log V, and the target is pulled up", "[kernels][hand]") {
  Values logits = {2, 2, 2, 2, 7, 7, 7, 7};

  const float loss = MeanLoss(*Either(), {1, 3}, true, AsRows(logits, 2));

  CHECK(loss == Approx(std::log(4.0)));
  CHECK(logits[0] == Approx(0.25 / 2));
  CHECK(logits[1] == Approx(-0.75 / 2));
  CHECK(logits[7] == Approx(-0.75 / 2));
}

TEST_CASE("By hand: the first AdamW step has the learning rate's length", "[kernels][hand]") {
  const Values gradient = {0.5f, -8};
  Values parameters = {1, 1}, m(2), v(2);

  const UpdateRange all = {0, 2, 2, 0.5f};
  Either()->AdamW({0.1f, 0.9f, 0.95f, 0, 1}, {&all, 1},
                  {gradient.data(), parameters.data(), m.data(), v.data(), nullptr});

  CHECK(m[0] == Approx(0.1));
  CHECK(v[0] == Approx(0.05));
  CHECK(parameters[0] == Approx(1 - 0.05 - 0.1));
  CHECK(parameters[1] == Approx(1 - 0.05 + 0.1));
}

TEST_CASE("AdamW: moments that die away end at zero, v not before m, and are never denormal",
          "[kernels]") {
  const float first = GENERATE(1.0f, 1e-6f, 1e-15f, 1e-18f, 1e-25f);
  const float beta2 = GENERATE(0.95f, 0.999f);
  for (auto kernels = RunnableKernelTables(); *kernels != nullptr; ++kernels) {
    INFO((*kernels)->name << ", first gradient " << first << ", beta2 " << beta2);
    const auto backend = CreateCpuBackendWith(**kernels, 1);
    Values gradient(20, first), parameters(20, 1), m(20), v(20);
    const UpdateRange all = {0, 20, 1, 0};
    bool lawful = true, normal = true;
    for (int step = 1; step < 100'000 && (step == 1 || v[19] > 0); ++step) {
      backend->AdamW({1e-3f, 0.9f, beta2, 1e-8f, step}, {&all, 1},
                     {gradient.data(), parameters.data(), m.data(), v.data(), nullptr});
      gradient.assign(20, 0);
      lawful = lawful && m[19] <= 7.3f * std::sqrt(v[19]);  // C of 0.9 and 0.999
      for (const float moment : {m[0], m[19], v[0], v[19]})
        normal = normal && std::fpclassify(moment) != FP_SUBNORMAL;
    }
    CHECK(lawful);
    CHECK(normal);
    CHECK(m == Values(20));
    CHECK(v == Values(20));
  }
}

TEST_CASE("By hand: SGD and SwiGLU", "[kernels][hand]") {
  const auto backend = Either();
  const Values gradient = {8}, gate_up = {0, 100, -100, 3, 5, 7};
  Values parameters = {10}, out(3);

  const UpdateRange all = {0, 1, 0.25f, 0};
  backend->Sgd(0.5f, {&all, 1}, {.gradient = gradient.data(), .parameters = parameters.data()});
  backend->SwigluForward(AsRows(gate_up, 1), AsRows(out, 1));

  CHECK(parameters[0] == 9);
  CHECK(out[0] == 0);
  CHECK(out[1] == 500);
  CHECK(out[2] == Approx(0).margin(1e-30));
}

}  // namespace skerry
