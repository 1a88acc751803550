// What the CPU backend promises beside right numbers: equal bits, names, refusals.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>

#include "kernels/measure.h"
#include "tests/kernels/calls.h"
#include "tests/kernels/suite.h"
#include "tests/kernels/values.h"

namespace skerry {
namespace {

// Whether `body` ends its process by abort, as a broken CHECK does. Runs it in a child.
template <typename Body>
bool Aborts(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    close(STDERR_FILENO);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

// A little of everything, chained, so that one different bit anywhere shows.
Values Everything(Backend& backend, int64_t context) {
  const AttentionShape shape = {2, context, 4, 2, 16};
  const int64_t rows = 2 * context;
  Values q = Normals(rows * 64, "q"), k = Normals(rows * 32, "k"), v = Normals(rows * 32, "v");
  Values out(q.size()), lse(static_cast<size_t>(rows * 4)), normed(q.size()), inverse(lse.size());
  const Values weight = Normals(64 * 64, "w");
  backend.Rope(shape, 10000, false, AsRows(q, rows), AsRows(k, rows));
  backend.AttentionForward(shape, AsRows(q, rows), AsRows(k, rows), AsRows(v, rows),
                           AsRows(out, rows), lse.data());
  Normalise(backend, AsRows(out, rows), weight.data(), 1e-5f, AsRows(normed, rows), inverse.data());
  backend.Gemm(Transpose::kNo, Transpose::kYes, AsRows(normed, rows), AsRows(weight, 64), 1,
               AsRows(q, rows));
  Values d_q(q.size()), d_k(k.size()), d_v(v.size());
  backend.AttentionBackward(shape, AsRows(q, rows), AsRows(k, rows), AsRows(v, rows),
                            AsRows(out, rows), lse.data(), AsRows(normed, rows), AsRows(d_q, rows),
                            AsRows(d_k, rows), AsRows(d_v, rows));
  Values all = d_q;
  for (const Values* part : {&d_k, &d_v, &q, &out, &lse})
    all.insert(all.end(), part->begin(), part->end());
  return all;
}

}  // namespace

TEST_CASE("CpuBackend: the same call gives the same bits, whatever came before", "[kernels]") {
  const int threads = GENERATE(1, 2);
  const auto backend = CreateCpuBackend(threads), fresh = CreateCpuBackend(threads);
  const Values first = Everything(*backend, 37);

  Everything(*backend, 70);  // leaves other numbers in the scratch

  CHECK(SameBits(Everything(*backend, 37), first));
  CHECK(SameBits(Everything(*fresh, 37), first));
}

TEST_CASE("CpuBackend: an element's bits do not depend on where it stands", "[kernels]") {
  const auto backend = CreateCpuBackend(1);
  const Values gate_up = Normals(2 * 100, "gate_up");
  Values whole(100), piece(5);
  backend->SwigluForward(AsRows(gate_up, 1), AsRows(whole, 1));
  for (size_t first = 0; first + 5 <= 100; ++first) {
    Values part(gate_up.begin() + first, gate_up.begin() + first + 5);
    part.insert(part.end(), gate_up.begin() + 100 + first, gate_up.begin() + 105 + first);
    backend->SwigluForward(AsRows(part, 1), AsRows(piece, 1));
    CHECK(SameBits(piece, Values(whole.begin() + first, whole.begin() + first + 5)));
  }
}

TEST_CASE("CpuBackend: the sum of squares has equal bits on every instruction set", "[kernels]") {
  const Values x = Normals(4099, "x");
  const double want = SumOfSquares(*CreateCpuBackendWith(kPortableKernels, 1), x.data(), 4099);
  CHECK(SumOfSquares(*CreateCpuBackend(1), x.data(), 4099) == want);
}

TEST_CASE("CpuBackend: NaN is never hidden", "[kernels][error]") {
  for (const KernelTable* kernels : RunnableKernels()) {
    INFO(kernels->name);
    const auto backend = CreateCpuBackendWith(*kernels, 1);
    for (const size_t bad : {0u, 4u, 8u, 17u}) {
      Values logits = Normals(18, "logits"), gate_up = Normals(36, "gate_up"), out(18);
      logits[bad] = gate_up[bad] = NAN;
      CHECK(std::isnan(MeanLoss(*backend, {2}, true, AsRows(logits, 1))));
      backend->SwigluForward(AsRows(gate_up, 1), AsRows(out, 1));
      CHECK(std::isnan(out[bad]));
      const Values q = Normals(18, "q"), v = Normals(18, "v");
      Values k = Normals(18, "k"), attended(18), lse(18);
      k[bad] = NAN;
      backend->AttentionForward({1, 18, 1, 1, 1}, AsRows(q, 18), AsRows(k, 18), AsRows(v, 18),
                                AsRows(attended, 18), lse.data());
      CHECK(std::isnan(attended[17]));
      CHECK(std::isnan(attended[bad]));
      CHECK((bad == 0 || !std::isnan(attended[bad - 1])));
    }
  }
}

TEST_CASE("CpuBackend: the exponential is good over its whole range", "[kernels]") {
  Values gate_up;
  for (float x = -100; x < 100; x += 0.37f) gate_up.push_back(x);
  const int64_t n = static_cast<int64_t>(gate_up.size());
  gate_up.resize(2 * gate_up.size(), 1.0f);
  for (const KernelTable* kernels : RunnableKernels()) {
    INFO(kernels->name);
    Values out(static_cast<size_t>(n));
    CreateCpuBackendWith(*kernels, 1)->SwigluForward(AsRows(gate_up, 1), AsRows(out, 1));
    for (size_t i = 0; i < out.size(); ++i) {
      const double x = gate_up[i];
      INFO("x = " << x);
      CHECK(out[i] == Approx(x / (1 + std::exp(-x))).epsilon(1e-6).margin(1e-35));
    }
  }
}

TEST_CASE("CpuBackend: its name says whose products, instructions and threads", "[kernels]") {
  const auto one = CreateCpuBackend(1), two = CreateCpuBackend(2);
  const ProductKernels* own = BestKernels().products;
  const char* all_or_some = own != nullptr && own->side_least > 0 ? "cpu (own products and oneDNN "
                                                                  : "cpu (own products, ";
  CHECK_THAT(one->name(), Catch::StartsWith(own != nullptr ? all_or_some : "cpu (oneDNN ") &&
                              Catch::EndsWith("), 1 thread"));
  CHECK_THAT(two->name(), Catch::EndsWith("), 2 threads"));
  CHECK_THAT(one->numeric_profile(), Catch::Contains(BestKernels().name));
  CHECK(one->numeric_profile() != two->numeric_profile());
  CHECK(one->numeric_profile() != CreateCpuBackendWith(kPortableKernels, 1)->numeric_profile());
  CHECK_THAT(one->numeric_profile(),
             Catch::Contains(absl::StrFormat("kernels %d, threads 1", kKernelRevision)));
  const auto bf16 = CreateCpuBackend(1, DType::kBfloat16);
  const bool is_bf16 = bf16->compute_type() == DType::kBfloat16;
  CHECK((bf16->numeric_profile() != one->numeric_profile()) == is_bf16);
  if (!is_bf16) return;
  CHECK_THAT(bf16->numeric_profile(),
             Catch::Contains(std::string(", bf16 of ") + ProcessorMaker() + ","));
}

TEST_CASE("CpuBackend: buffers are zeros, aligned, and more than there is is refused",
          "[kernels]") {
  const auto backend = CreateCpuBackend(1);
  const auto buffer = backend->Allocate(37);
  REQUIRE(buffer.ok());
  CHECK((*buffer)->size() == 37);
  CHECK(reinterpret_cast<uintptr_t>((*buffer)->data()) % 64 == 0);
  Values host(37, 1.0f);
  backend->Download((*buffer)->data(), host);
  CHECK(host == Values(37));
  backend->Upload(Values{4, 5}, (*buffer)->data() + 1);
  CHECK((*buffer)->data()[2] == 5);
  CHECK(absl::IsResourceExhausted(backend->Allocate(INT64_MAX).status()));
}

TEST_CASE("CpuBackend: bad threads, shapes and tokens are bugs", "[kernels][error]") {
  CHECK(Aborts([] { CreateCpuBackend(0); }));
  CHECK_FALSE(Aborts([] { CreateCpuBackend(1); }));
  for (const bool reference : {true, false}) {
    const auto backend = reference ? CreateReferenceBackend() : CreateCpuBackend(1);
    Values a(6), b(6), c(6);
    CHECK(Aborts([&] {
      backend->Gemm(Transpose::kNo, Transpose::kNo, AsRows(a, 2), AsRows(b, 2), 0, AsRows(c, 2));
    }));
    CHECK(Aborts([&] {
      backend->EmbeddingForward(std::vector<int32_t>{3}, AsRows(a, 3), {c.data(), 1, 2});
    }));
    CHECK(Aborts([&] { MeanLoss(*backend, {-1}, false, AsRows(a, 1)); }));
    CHECK(Aborts([&] {
      backend->Rope({1, 2, 1, 1, 3}, 10000, false, AsRows(a, 2), AsRows(b, 2));
    }));
    CHECK(Aborts([&] {
      backend->Rope({1, 1, 3, 2, 2}, 10000, false, AsRows(a, 1), AsRows(b, 1));
    }));
  }
}

TEST_CASE("CpuBackend: its rate of multiplication can be measured", "[kernels]") {
  CHECK(MeasureGflops(*CreateCpuBackend(1)) > 0.1);
}

TEST_CASE("CpuBackend: it computes in bf16 where products are faster so", "[kernels]") {
  const auto float32 = CreateCpuBackend(1);
  const auto bf16 = CreateCpuBackendWith(BestKernels(), 1, DType::kBfloat16);
  const bool has_bf16 = bf16->compute_type() == DType::kBfloat16;
  double float32_rate = 0, bf16_rate = 0;
  // Twice or half as fast: the best of five tells them apart on the busiest machine.
  for (int round = 0; has_bf16 && round < 5; ++round) {
    float32_rate = std::max(float32_rate, MeasureGflops(*float32));
    bf16_rate = std::max(bf16_rate, MeasureGflops(*bf16));
  }
  const auto chosen = CreateCpuBackend(1, DType::kBfloat16);
  INFO("float32 " << float32_rate << ", bf16 " << bf16_rate << " GFLOP/s");
  CHECK((chosen->compute_type() == DType::kBfloat16) == (bf16_rate > float32_rate));
}

}  // namespace skerry
