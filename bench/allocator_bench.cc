// The allocator of codecs over the tensors of a large model: its time, and the bytes it saves over
// one codec for all at the same error.
#include <cmath>
#include <vector>

#include "bench/bench.h"
#include "common/rng.h"
#include "compression/allocator.h"

namespace skerry::bench {
namespace {

constexpr size_t kTensors = 1000;
constexpr double kBits[] = {0.153, 1, 1.1, 2.06, 4.03, 8.03, 16, 32};
constexpr size_t kUniform = 4;  // int4

// Sizes over four octaves, root mean squares over six, errors near the rate-distortion curve.
std::vector<std::vector<CodecChoice>> Tensors(uint64_t seed) {
  Rng rng(seed, "tensors");
  std::vector<std::vector<CodecChoice>> all(kTensors);
  for (auto& choices : all) {
    const double n = 65536 * std::exp2(4 * rng.Uniform());
    const double variance = std::exp2(-12 * rng.Uniform());
    for (const double bits : kBits) {
      const double error = n * variance * std::exp2(-2 * bits) * (1 + rng.Uniform());
      choices.push_back({static_cast<int64_t>(n * bits / 8), error});
    }
  }
  return all;
}

int Run(int argc, char** argv) {
  Bench bench("allocator", argc, argv);
  const auto tensors = Tensors(1);
  int64_t bytes = 0;
  double error = 0;
  for (const auto& choices : tensors) {
    bytes += choices[kUniform].bytes;
    error += choices[kUniform].error;
  }
  const double by_error = BestSeconds(9, [&] { Keep(AllocateForError(tensors, error)->bytes); });
  const double by_bytes = BestSeconds(9, [&] { Keep(AllocateForBytes(tensors, bytes)->error); });
  bench.AtMost("1000 tensors, 8 codecs, error budget", 1e3 * by_error, "ms", 1);
  bench.AtMost("the same, byte budget", 1e3 * by_bytes, "ms", 1);
  const auto saved = static_cast<double>(bytes - AllocateForError(tensors, error)->bytes);
  bench.AtLeast("bytes saved over int4 for all, equal error", 100 * saved / double(bytes), "%", 15);
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}
