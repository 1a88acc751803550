// Every operation of a training step on one core, beside what bounds it, measured in the same run:
// the peak of multiply-adds, or the triad; and attention beside PyTorch's.
//
// `--torch PYTHON` names an interpreter that has torch; without it only our rows are printed.
// Operation and limit (or peer) alternate; medians of processor time.
#include <cmath>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "bench/statistics.h"
#include "bench/torch_peer.h"
#include "kernels/cpu/limits.h"
#include "kernels/cpu/omp_environment.h"
#include "kernels/operation_rates.h"

namespace skerry::bench {
namespace {

// The linear layers of LLaMA models of 10M to 1B parameters.
constexpr ProductShape kProducts[] = {{512, 256, 256},    {2048, 256, 256},   {2048, 256, 704},
                                      {2048, 704, 256},   {512, 512, 512},    {2048, 512, 512},
                                      {2048, 512, 1408},  {2048, 1408, 512},  {4096, 512, 1408},
                                      {512, 1024, 1024},  {2048, 1024, 1024}, {2048, 1024, 2752},
                                      {2048, 2752, 1024}, {4096, 1024, 2752}, {2048, 512, 8192}};

constexpr AttentionShape kAttentions[] = {
    {4, 512, 8, 4, 32}, {2, 512, 8, 4, 64}, {2, 1024, 8, 4, 64}, {1, 2048, 8, 4, 128}};

double Seconds(const TimedOperation& operation) {
  const double start = ThreadSeconds();
  operation.run();
  return ThreadSeconds() - start;
}

// Geometric mean over shapes and forms of each one's median share of the peak.
void Products(Bench& bench, Backend& backend) {
  const DType type = backend.compute_type();
  double log_sum = 0, worst = 1e9;
  int count = 0;
  std::string worst_name;
  for (const ProductShape& shape : kProducts) {
    for (const TimedOperation& operation : ProductOperations(backend, shape)) {
      operation.run();
      std::vector<double> shares;
      for (int round = 0; round < 7; ++round) {
        const double peak = PeakGflops(type);
        const int calls = static_cast<int>(1 + 2e8 / operation.work);
        double seconds = 0;
        for (int i = 0; i < calls; ++i) seconds += Seconds(operation);
        shares.push_back(1e-9 * operation.work * calls / seconds / peak);
      }
      const double share = Median(shares);
      log_sum += std::log(share);
      ++count;
      if (share >= worst) continue;
      worst = share;
      worst_name = std::to_string(shape.tokens) + " x " + std::to_string(shape.in) + " x " +
                   std::to_string(shape.out) + " " + operation.name;
    }
  }
  const std::string name = std::string("products, ") + TypeName(type);
  bench.AtLeast(name + ", share of peak", 100 * std::exp(log_sum / count), "%", 85);
  bench.Record(name + ", worst (" + worst_name + ")", 100 * worst, "%");
}

std::string Describe(const AttentionShape& s) {
  return std::to_string(s.sequences) + " x " + std::to_string(s.context) + ", heads " +
         std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + " of " +
         std::to_string(s.head_size);
}

std::string WorkOf(const AttentionShape& s, DType type) {
  std::string work = "attention";
  for (const int64_t part : {s.sequences, s.context, s.heads, s.kv_heads, s.head_size})
    work += " " + std::to_string(part);
  return work + " " + TypeName(type);
}

// The ratio of the summed seconds would follow the largest shape alone, so it is a geometric mean.
void Attentions(Bench& bench, Backend& backend, TorchPeer* peer) {
  const DType type = backend.compute_type();
  double log_ratio = 0;
  int compared = 0;
  for (const AttentionShape& shape : kAttentions) {
    const auto operations = AttentionOperations(backend, shape);
    std::vector<double> forward, backward, ratios, torch;
    for (int round = 0; round < 7; ++round) {
      forward.push_back(Seconds(operations[0]));
      backward.push_back(Seconds(operations[1]));
      if (peer == nullptr) continue;
      if (const auto seconds = peer->Seconds(WorkOf(shape, type))) {
        torch.push_back(1e3 * *seconds);
        ratios.push_back(*seconds / (forward.back() + backward.back()));
      }
    }
    const std::string name = std::string("attention ") + TypeName(type) + ", " + Describe(shape);
    const double seconds = Median(forward) + Median(backward);
    const double work = operations[0].work + operations[1].work;
    bench.Record(name + ", forward", 1e3 * Median(forward), "ms");
    bench.Record(name + ", backward", 1e3 * Median(backward), "ms");
    bench.Record(name + ", share of peak", 100e-9 * work / seconds / PeakGflops(type), "%");
    if (ratios.empty()) continue;
    bench.Record(name + ", PyTorch both", Median(torch), "ms");
    bench.Record(name + ", over PyTorch", Median(ratios), "x");
    log_ratio += std::log(Median(ratios));
    ++compared;
  }
  if (compared == 0) return;
  bench.AtLeast(std::string("attention ") + TypeName(type) + ", over PyTorch",
                std::exp(log_ratio / compared), "x", type == DType::kFloat32 ? 2.5 : 3.5);
}

void Memory(Bench& bench, Backend& backend) {
  Triad triad;
  for (const TimedOperation& operation : MemoryOperations(backend, 16 * 1024)) {
    operation.run();
    triad.Measure();
    std::vector<double> shares, rates;
    for (int round = 0; round < 7; ++round) {
      const double limit = triad.Measure();
      rates.push_back(1e-9 * operation.work / Seconds(operation));
      shares.push_back(100 * rates.back() / limit);
    }
    const std::string name = operation.name + ", " + TypeName(backend.compute_type());
    bench.Record(name, Median(rates), "GB/s");
    bench.AtLeast(name + ", of triad", Median(shares), "%", 90);
  }
}

int Run(int argc, char** argv) {
  Bench bench("kernels", argc, argv, {"--torch"});
  std::unique_ptr<TorchPeer> peer;
  if (!bench.Option("--torch").empty()) peer = TorchPeer::Start(bench.Option("--torch"), 1);
  if (peer) std::printf("PyTorch %s\n", peer->version().c_str());
  Triad triad;
  bench.Record("triad", triad.Measure(), "GB/s");
  for (const DType type : {DType::kFloat32, DType::kBfloat16}) {
    const auto backend = CreateCpuBackend(1, type);
    if (backend->compute_type() != type) continue;
    std::printf("%s\n", backend->name().c_str());
    bench.Record(std::string("peak, ") + TypeName(type), PeakGflops(type), "GFLOP/s");
    Attentions(bench, *backend, peer.get());
    Memory(bench, *backend);
    Products(bench, *backend);
  }
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  skerry::UsePassiveWaiting(argc, argv);
  return skerry::bench::Run(argc, argv);
}
