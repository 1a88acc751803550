// Matrix products of training shapes against the peak of one core, measured here and now.
#include <cmath>
#include <string>

#include "bench/bench.h"
#include "common/rng.h"
#include "kernels/backend.h"

namespace skerry::bench {
namespace {

// Independent multiply-adds held in registers: what a core can do when nothing else is in its way.
// Ten chains hide the latency of the multiply-add and fit the registers of every instruction set.
constexpr int kChains = 10;
constexpr int64_t kPeakRounds = 2'000'000;

typedef float Lanes8 __attribute__((vector_size(32)));
typedef float Lanes16 __attribute__((vector_size(64)));

template <typename Lanes>
[[gnu::always_inline]] inline void RunChains() {
  Lanes sums[kChains] = {};
  const Lanes factor = Lanes{} + 0.999f, term = Lanes{} + 0.001f;
  for (int64_t i = 0; i < kPeakRounds; ++i) {
#pragma GCC unroll 10
    for (Lanes& sum : sums) sum = sum * factor + term;
  }
  for (const Lanes& sum : sums) Keep(sum[0]);
}

__attribute__((target("avx512f"), optimize("fp-contract=fast"))) void ChainsAvx512() {
  RunChains<Lanes16>();
}
__attribute__((target("avx2,fma"), optimize("fp-contract=fast"))) void ChainsAvx2() {
  RunChains<Lanes8>();
}

double ChainsRate(void (*chains)(), int lanes) {
  return 2e-9 * lanes * kChains * static_cast<double>(kPeakRounds) / BestSeconds(5, chains);
}

// GFLOP/s in float32; 0 where this program knows no better way than the compiler's.
double PeakGflops() {
  if (__builtin_cpu_supports("avx512f")) return ChainsRate(ChainsAvx512, 16);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return ChainsRate(ChainsAvx2, 8);
  return 0;
}

struct Shape {
  int64_t tokens, in, out;
};

// The demo's model, then the 10M and 50M models of the kernel notes.
constexpr Shape kShapes[] = {{1024, 192, 384},  {1024, 192, 1024}, {1024, 512, 192},
                             {2048, 256, 1408}, {2048, 704, 256},  {2048, 512, 1408}};

// Forward Y = X·W, backward dX = dY·Wᵀ, backward dW = Xᵀ·dY: GFLOP/s of each on one thread.
class Product {
 public:
  Product(Backend& backend, const Shape& shape)
      : backend_(backend),
        shape_(shape),
        x_(*backend.Allocate(shape.tokens * shape.in)),
        y_(*backend.Allocate(shape.tokens * shape.out)),
        w_(*backend.Allocate(shape.in * shape.out)) {
    for (Buffer* buffer : {x_.get(), y_.get(), w_.get()}) Randomize(*buffer);
  }

  double Forward() {
    return Rate([&] { backend_.Gemm(Transpose::kNo, Transpose::kNo, X(), W(), 0, Y()); });
  }
  double BackwardInput() {
    return Rate([&] { backend_.Gemm(Transpose::kNo, Transpose::kYes, Y(), W(), 0, X()); });
  }
  double BackwardWeight() {
    return Rate([&] { backend_.Gemm(Transpose::kYes, Transpose::kNo, X(), Y(), 0, W()); });
  }

 private:
  Matrix X() { return {x_->data(), shape_.tokens, shape_.in}; }
  Matrix Y() { return {y_->data(), shape_.tokens, shape_.out}; }
  Matrix W() { return {w_->data(), shape_.in, shape_.out}; }

  void Randomize(Buffer& buffer) {
    Rng rng(1);
    std::vector<float> values(static_cast<size_t>(buffer.size()));
    for (float& value : values) value = static_cast<float>(rng.Uniform() - 0.5) * 0.1f;
    backend_.Upload(values, buffer.data());
  }

  template <typename Work>
  double Rate(Work&& work) {
    const double seconds = BestSeconds(15, [&] {
      work();
      backend_.Synchronize();
    });
    return 2e-9 * static_cast<double>(shape_.tokens * shape_.in * shape_.out) / seconds;
  }

  Backend& backend_;
  Shape shape_;
  std::unique_ptr<Buffer> x_, y_, w_;
};

int Run(int argc, char** argv) {
  Bench bench("gemm", argc, argv);
  const auto backend = CreateCpuBackend(1);
  std::printf("%s\n", backend->name().c_str());
  bench.Record("peak: multiply-adds in registers", PeakGflops(), "GFLOP/s");
  double log_share = 0;
  int count = 0;
  for (const Shape& shape : kShapes) {
    Product product(*backend, shape);
    const std::string what = std::to_string(shape.tokens) + " x " + std::to_string(shape.in) +
                             " x " + std::to_string(shape.out);
    const double peak = PeakGflops();
    for (const auto& [pass, rate] : {std::pair("forward", product.Forward()),
                                     std::pair("backward, input", product.BackwardInput()),
                                     std::pair("backward, weight", product.BackwardWeight())}) {
      bench.Record(what + " " + pass, rate, "GFLOP/s");
      log_share += std::log(rate / peak);
      ++count;
    }
  }
  const double share = 100 * std::exp(log_share / count);
  if (PeakGflops() > 0) bench.AtLeast("geometric mean, share of peak", share, "%", 75);
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}
