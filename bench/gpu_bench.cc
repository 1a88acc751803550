// What a GPU reaches in training, beside what bounds it in the same run: its copies, its largest
// product, its maker's peak, and PyTorch's compiled step.
//
//   bench_gpu [--torch PYTHON] [--device N] [--sizes tiny] [--json FILE]
//
// tiny: sizes at which the CUDA text on fibers ends in seconds; its figures say nothing.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "bench/bench.h"
#include "bench/statistics.h"
#include "bench/torch_peer.h"
#include "bench/trainee.h"
#include "common/check.h"
#include "common/rng.h"
#include "common/status.h"
#include "compression/device_codecs.h"
#include "kernels/operation_rates.h"
#include "kernels/plugin/gpu_backend.h"

namespace skerry::bench {
namespace {

constexpr int kRounds = 7;
constexpr double kStretchS = 0.02;  // of calls that are timed as one: a launch alone is no figure

struct ModelSize {
  const char* name;  // tools/torch_step.py knows it by that
  TransformerConfig model;
  int32_t sequences;
  double mfu_goal;       // %
  double products_goal;  // step over its products alone; 0: none
};

struct Sizes {
  int64_t product, copied, rows;
  AttentionShape attention;
  std::vector<ModelSize> models;
  int64_t values;  // of a delta
};

TransformerConfig Model(int32_t vocab, int32_t hidden, int32_t layers, int32_t heads,
                        int32_t kv_heads, int32_t ffn, int32_t context) {
  TransformerConfig m;
  m.vocab = vocab, m.hidden = hidden, m.layers = layers, m.heads = heads, m.kv_heads = kv_heads;
  m.ffn = ffn, m.context = context;
  return m;
}

Sizes SizesOf(bool tiny) {
  if (tiny) {
    return {64,
            1 << 16,
            1024,
            {1, 64, 2, 1, 64},
            {{"tiny", Model(256, 128, 1, 2, 1, 256, 32), 2, 0, 0}},
            4096};
  }
  return {8192,
          int64_t{1} << 28,
          128 << 10,
          {4, 4096, 32, 8, 128},
          {{"124m", Model(25600, 768, 12, 12, 12, 2048, 1024), 16, 40, 0},
           {"1b", Model(25600, 2048, 20, 16, 8, 5504, 2048), 8, 50, 1.25}},
          int64_t{64} << 20};
}

// Of tensor cores in bf16 without sparsity, as NVIDIA's data sheets have it, TFLOP/s; 0: not known.
double NominalTflops(const std::string& name) {
  for (const auto& [part, tflops] : std::vector<std::pair<const char*, double>>{{"B200", 2250},
                                                                                {"H200", 989.4},
                                                                                {"H100 PCIe", 756},
                                                                                {"H100", 989.4},
                                                                                {"A100", 312},
                                                                                {"L40S", 362},
                                                                                {"RTX 4090", 165.2},
                                                                                {"RTX 3090", 71}}) {
    if (absl::StrContains(name, part)) return tflops;
  }
  return 0;
}

template <typename Run>
double Wall(Backend& gpu, int calls, Run&& run) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) run();
  gpu.Synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
}

// Of one call, the median of rounds.
template <typename Run>
double Seconds(Backend& gpu, Run&& run) {
  Wall(gpu, 1, run);
  const int calls = static_cast<int>(std::clamp(kStretchS / Wall(gpu, 1, run), 1.0, 1000.0));
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) seconds.push_back(Wall(gpu, calls, run));
  return Median(seconds);
}

struct Peaks {
  double copy = 0;     // GB/s, read and written
  double product = 0;  // TFLOP/s, measured
  double nominal = 0;  // TFLOP/s
  double best() const { return nominal > 0 ? nominal : product; }
};

double CopyRate(Backend& gpu, int64_t floats) {
  const auto from = *gpu.Allocate(floats), to = *gpu.Allocate(floats);
  const double seconds = Seconds(gpu, [&] { gpu.Copy(from->data(), to->data(), floats); });
  return 8e-9 * static_cast<double>(floats) / seconds;
}

double ProductSeconds(Backend& gpu, const ProductShape& shape) {
  double seconds = 0;
  const auto operations = ProductOperations(gpu, shape);
  SKERRY_CHECK(!operations.empty(), "memory for the operands of a product");
  for (const TimedOperation& operation : operations) seconds += Seconds(gpu, operation.run);
  return seconds;
}

void Products(Bench& bench, Backend& gpu, const Sizes& sizes, Peaks& peaks) {
  const auto n = sizes.product;
  for (const TimedOperation& operation : ProductOperations(gpu, {n, n, n})) {
    const double rate = 1e-12 * operation.work / Seconds(gpu, operation.run);
    bench.Record(absl::StrFormat("product of %d, %s", n, operation.name), rate, "TFLOP/s");
    peaks.product = std::max(peaks.product, rate);
  }
}

void Attention(Bench& bench, Backend& gpu, const Sizes& sizes) {
  const auto operations = AttentionOperations(gpu, sizes.attention);
  SKERRY_CHECK(operations.size() == 2, "memory for the operands of attention");
  const double goals[] = {350, 250};
  for (size_t i = 0; i < operations.size(); ++i) {
    const double rate = 1e-12 * operations[i].work / Seconds(gpu, operations[i].run);
    bench.AtLeast(operations[i].name, rate, "TFLOP/s", goals[i]);
  }
}

void Memory(Bench& bench, Backend& gpu, const Sizes& sizes, const Peaks& peaks) {
  for (const TimedOperation& operation : MemoryOperations(gpu, sizes.rows)) {
    const double rate = 1e-9 * operation.work / Seconds(gpu, operation.run);
    bench.AtLeast(operation.name + ", of the copy rate", 100 * rate / peaks.copy, "%", 85);
  }
}

// All products of a step by themselves.
double ProductsAlone(Backend& gpu, const TransformerConfig& m, int64_t tokens) {
  const int64_t kv = int64_t{2} * m.kv_heads * m.head_size();
  double layer = 0;
  for (const ProductShape& shape : {ProductShape{tokens, m.hidden, m.hidden + kv},
                                    {tokens, m.hidden, m.hidden},
                                    {tokens, m.hidden, int64_t{2} * m.ffn},
                                    {tokens, m.ffn, m.hidden}}) {
    layer += ProductSeconds(gpu, shape);
  }
  return m.layers * layer + ProductSeconds(gpu, {tokens, m.hidden, m.vocab});
}

void Step(Bench& bench, int device, const ModelSize& size, const Peaks& peaks, TorchPeer* peer) {
  const std::string name = size.name;
  std::vector<double> ours, theirs;
  double tokens = 0;
  {
    Trainee trainee(size.model, *CreateCudaBackend(device, DType::kBfloat16), size.sequences);
    tokens = trainee.tokens();
    for (int round = 0; round < kRounds; ++round) {
      ours.push_back(trainee.WallSeconds());
      if (peer == nullptr) continue;
      if (const auto seconds = peer->Seconds("step " + name + " bf16")) theirs.push_back(*seconds);
    }
  }
  const double seconds = Median(ours);
  bench.Record(name + ", a step", 1e3 * seconds, "ms");
  bench.Record(name, tokens / seconds, "tok/s");
  const double share = 1e-10 * FlopsPerToken(size.model) * tokens / seconds / peaks.best();
  bench.AtLeast(name + ", share of peak (MFU)", share, "%", size.mfu_goal);
  const auto gpu = *CreateCudaBackend(device, DType::kBfloat16);
  const double alone = ProductsAlone(*gpu, size.model, static_cast<int64_t>(tokens));
  const std::string over = name + ", step over its products alone";
  if (size.products_goal > 0) bench.AtMost(over, seconds / alone, "x", size.products_goal);
  if (size.products_goal == 0) bench.Record(over, seconds / alone, "x");
  if (theirs.empty()) return;
  bench.Record(name + ", PyTorch compiled", tokens / Median(theirs), "tok/s");
  bench.AtLeast(name + ", over PyTorch compiled", Median(theirs) / seconds, "x", 1);
}

// Three float32 are read, and what of a message leaves the device is written: as codecs on a
// processor are counted.
void Codecs(Bench& bench, int device, const Sizes& sizes, const Peaks& peaks) {
  const auto gpu = *CreateCudaBackend(device);
  const GpuHandle handle = GpuOf(*gpu);
  const auto base = *gpu->Allocate(sizes.values), theta = *gpu->Allocate(sizes.values),
             residual = *gpu->Allocate(sizes.values);
  std::vector<float> drawn(static_cast<size_t>(sizes.values));
  Rng rng(1);
  for (float& value : drawn) value = static_cast<float>(0.01 * rng.Normal());
  gpu->Upload(drawn, base->data());
  DeviceCodecs codecs(*handle.table, handle.device);
  const GpuDelta delta = {sizes.values, base->data(), theta->data(), residual->data()};
  const std::pair<const char*, DeltaCodec> kinds[] = {
      {"bf16", DeltaCodec::kBf16},       {"int8", DeltaCodec::kInt8}, {"int4", DeltaCodec::kInt4},
      {"ternary", DeltaCodec::kTernary}, {"sign", DeltaCodec::kSign}, {"top-k", DeltaCodec::kTopK}};
  for (const auto& [name, kind] : kinds) {
    Bytes message;
    bool ok = true;
    const double seconds =
        Seconds(*gpu, [&] { ok = ok && codecs.Encode(kind, delta, &message).ok(); });
    SKERRY_CHECK(ok, "finite values are encoded");
    const double bytes =
        12.0 * static_cast<double>(sizes.values) + static_cast<double>(message.size());
    bench.AtLeast(std::string(name) + ", encoded with feedback, of the copy rate",
                  100e-9 * bytes / seconds / peaks.copy, "%", kind == DeltaCodec::kTopK ? 60 : 80);
  }
}

int Run(int argc, char** argv) {
  Bench bench("gpu", argc, argv, {"--torch", "--device", "--sizes"});
  const int device = std::atoi(bench.Option("--device").c_str());
  const auto gpu = CreateCudaBackend(device, DType::kBfloat16);
  if (!gpu.ok()) {
    std::printf("no GPU, so nothing was measured: %s\n", ErrorText(gpu.status()).c_str());
    return 1;
  }
  const Sizes sizes = SizesOf(bench.Option("--sizes") == "tiny");
  std::unique_ptr<TorchPeer> peer;
  if (!bench.Option("--torch").empty())
    peer = TorchPeer::Start(bench.Option("--torch"), 1, absl::StrFormat("cuda:%d", device));
  std::printf("%s\n", (*gpu)->name().c_str());
  if (peer) std::printf("PyTorch %s\n", peer->version().c_str());
  Peaks peaks;
  peaks.nominal = NominalTflops((*gpu)->name());
  peaks.copy = CopyRate(**gpu, sizes.copied);
  bench.Record("copies, read and written", peaks.copy, "GB/s");
  bench.Record("its maker's peak in bf16 (0: not known)", peaks.nominal, "TFLOP/s");
  Products(bench, **gpu, sizes, peaks);
  Attention(bench, **gpu, sizes);
  Memory(bench, **gpu, sizes, peaks);
  for (const ModelSize& size : sizes.models) Step(bench, device, size, peaks, peer.get());
  Codecs(bench, device, sizes, peaks);
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}
