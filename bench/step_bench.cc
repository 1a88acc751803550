// A whole training step on the CPU, beside PyTorch's on the same core: tokens a second, and the
// share of what the core could multiply.
//
// `--torch PYTHON` names an interpreter that has torch; without it only our rows are printed.
// Rounds of both sides alternate; medians of processor time.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "bench/bench.h"
#include "bench/statistics.h"
#include "bench/torch_peer.h"
#include "bench/trainee.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/limits.h"
#include "kernels/cpu/omp_environment.h"

namespace skerry::bench {
namespace {

constexpr int kRounds = 5;

struct ModelSize {
  const char* name;
  TransformerConfig model;
};

std::vector<ModelSize> Sizes() {
  TransformerConfig ten, fifty;
  ten.vocab = 4096, ten.hidden = 256, ten.layers = 8, ten.heads = 8, ten.kv_heads = 4;
  ten.ffn = 704, ten.context = 512;
  fifty.vocab = 8192, fifty.hidden = 512, fifty.layers = 12, fifty.heads = 8, fifty.kv_heads = 4;
  fifty.ffn = 1408, fifty.context = 512;
  return {{"10m", ten}, {"50m", fifty}};
}

struct Readings {
  std::vector<double> ours32, ours16, torch32, torch16;
};

void Report(Bench& bench, const ModelSize& size, Readings& r, bool has_bf16, double tokens) {
  const std::string name = size.name;
  const double flops = FlopsPerToken(size.model);
  const double rate32 = tokens / Median(r.ours32);
  bench.Record(name + " float32", rate32, "tok/s");
  bench.AtLeast(name + " float32, share of peak",
                100 * rate32 * flops * 1e-9 / PeakGflops(DType::kFloat32), "%", 60);
  if (has_bf16) {
    const double rate16 = tokens / Median(r.ours16);
    bench.Record(name + " bf16", rate16, "tok/s");
    bench.AtLeast(name + " bf16, share of peak",
                  100 * rate16 * flops * 1e-9 / PeakGflops(DType::kBfloat16), "%", 50);
  }
  if (r.torch32.empty()) return;
  bench.Record(name + " float32, PyTorch", tokens / Median(r.torch32), "tok/s");
  bench.AtLeast(name + " float32, over PyTorch", Median(r.torch32) / Median(r.ours32), "x", 1.3);
  if (r.torch16.empty()) return;
  bench.Record(name + " bf16, PyTorch", tokens / Median(r.torch16), "tok/s");
  const double best = std::min(Median(r.torch32), Median(r.torch16));
  bench.AtLeast(name + " bf16, over PyTorch's best", best / Median(r.ours16), "x", 1.5);
}

void BesidePyTorch(Bench& bench, const ModelSize& size, TorchPeer* peer) {
  Trainee float32(size.model, CreateCpuBackend(1, DType::kFloat32)),
      bf16(size.model, CreateCpuBackend(1, DType::kBfloat16));
  const bool has_bf16 = bf16.type() == DType::kBfloat16;
  Readings r;
  for (int round = 0; round < kRounds; ++round) {
    r.ours32.push_back(float32.ProcessorSeconds());
    if (has_bf16) r.ours16.push_back(bf16.ProcessorSeconds());
    if (peer == nullptr) continue;
    const std::string step = std::string("step ") + size.name;
    if (const auto seconds = peer->Seconds(step + " float32")) r.torch32.push_back(*seconds);
    if (!has_bf16) continue;  // PyTorch emulates it there, and takes minutes
    if (const auto seconds = peer->Seconds(step + " bf16")) r.torch16.push_back(*seconds);
  }
  Report(bench, size, r, has_bf16, float32.tokens());
}

// Other programs that compute all the time, while it lives.
class BusyProcesses {
 public:
  explicit BusyProcesses(int count) {
    for (int i = 0; i < count; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        for (uint64_t n = 0;; ++n) Keep(n);
      }
      children_.push_back(child);
    }
  }
  ~BusyProcesses() {
    for (const pid_t child : children_) kill(child, SIGKILL);
    for (const pid_t child : children_) waitpid(child, nullptr, 0);
  }
  BusyProcesses(const BusyProcesses&) = delete;
  BusyProcesses& operator=(const BusyProcesses&) = delete;

 private:
  std::vector<pid_t> children_;
};

// Wall time: two threads must not wait for each other where processors are not theirs.
double TwoOverOne(const TransformerConfig& model, DType type, int busy, int rounds) {
  Trainee one(model, CreateCpuBackend(1, type)), two(model, CreateCpuBackend(2, type));
  const BusyProcesses competitors(busy);
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    const double alone = one.WallSeconds();
    ratios.push_back(alone / two.WallSeconds());
  }
  return Median(ratios);
}

// What own products are worth, where there are any: wall time, in turn.
void BesideLibrary(Bench& bench, const ModelSize& size, DType type, int threads) {
  KernelTable library = BestKernels();
  const ProductKernels*& products =
      type == DType::kFloat32 ? library.products : library.bf16_products;
  if (products == nullptr) return;
  products = nullptr;
  Trainee own(size.model, CreateCpuBackend(threads, type));
  Trainee theirs(size.model, CreateCpuBackendWith(library, threads, type));
  std::vector<double> ratios;
  for (int round = 0; round < kRounds; ++round) {
    const double seconds = theirs.WallSeconds();
    ratios.push_back(seconds / own.WallSeconds());
  }
  bench.Record(absl::StrFormat("%s %s, threads %d, own products over oneDNN's", size.name,
                               TypeName(type), threads),
               Median(ratios), "x");
}

int Run(int argc, char** argv) {
  Bench bench("step", argc, argv, {"--torch"});
  std::unique_ptr<TorchPeer> peer;
  if (!bench.Option("--torch").empty()) peer = TorchPeer::Start(bench.Option("--torch"), 1);
  std::printf("%s\n", CreateCpuBackend(1, DType::kBfloat16)->name().c_str());
  if (peer) std::printf("PyTorch %s\n", peer->version().c_str());
  bench.Record("peak of a core, float32", PeakGflops(DType::kFloat32), "GFLOP/s");
  bench.Record("peak of a core, bf16", PeakGflops(DType::kBfloat16), "GFLOP/s");
  const std::vector<ModelSize> sizes = Sizes();
  for (const ModelSize& size : sizes) BesidePyTorch(bench, size, peer.get());
  for (const ModelSize& size : sizes) {
    for (const DType type : {DType::kFloat32, DType::kBfloat16}) {
      for (const int threads : {1, 2}) BesideLibrary(bench, size, type, threads);
    }
  }
  for (const DType type : {DType::kFloat32, DType::kBfloat16}) {
    if (CreateCpuBackend(1, type)->compute_type() != type) continue;
    const std::string what = TypeName(type);
    bench.Record("10m " + what + ", two threads over one, idle",
                 TwoOverOne(sizes[0].model, type, 0, 2 * kRounds), "x");
    bench.Record("50m " + what + ", two threads over one, idle",
                 TwoOverOne(sizes[1].model, type, 0, kRounds), "x");
    bench.AtLeast("10m " + what + ", two threads over one, four busy",
                  TwoOverOne(sizes[0].model, type, 4, 2 * kRounds), "x", 1.5);
  }
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  skerry::UsePassiveWaiting(argc, argv);
  return skerry::bench::Run(argc, argv);
}
