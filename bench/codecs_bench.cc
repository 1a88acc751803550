// Delta codecs on one core against the memory they run from: bytes touched per second over what a
// plain triad a = b + s·c reaches on the same arrays. Bits per value are the message's exact size.
#include <cstdint>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "common/rng.h"
#include "compression/codec.h"

namespace skerry::bench {
namespace {

// 64 MB an array: beyond any core's cache, so that memory is the bound.
constexpr int64_t kValues = 16 << 20;
constexpr int kRounds = 7;

std::vector<float> Values(uint64_t seed, float scale) {
  Rng rng(seed);
  std::vector<float> values(kValues);
  for (float& value : values) value = scale * static_cast<float>(rng.Uniform() - 0.5);
  return values;
}

double Rate(double bytes_per_value, double seconds) {
  return 1e-9 * bytes_per_value * static_cast<double>(kValues) / seconds;
}

struct Vectors {
  std::vector<float> base = Values(1, 1.0f);
  std::vector<float> theta = Values(2, 1.0f);
  std::vector<float> residual = Values(3, 1e-3f);
  std::vector<float> out = std::vector<float>(kValues);
  std::vector<int64_t> sum = std::vector<int64_t>(kValues);
};

double TriadRate(Vectors& v) {
  const double seconds = BestSeconds(kRounds, [&] {
    const float* b = v.base.data();
    const float* c = v.theta.data();
    float* a = v.out.data();
#pragma GCC ivdep
    for (int64_t i = 0; i < kValues; ++i) a[i] = b[i] + 3.0f * c[i];
    Keep(a);
  });
  return Rate(12, seconds);
}

// Encode reads three float32 and writes the message; decode reads the message and writes float32;
// accumulate reads the message and reads and writes an int64.
bool MeasureCodec(Bench& bench, Vectors& v, DeltaCodec kind, const std::string& name) {
  const Codec& codec = CodecFor(kind);
  const double message = static_cast<double>(codec.EncodedSizeMax(kValues)) / kValues;
  const DeltaSource source{v.base, v.theta, v.residual};
  Bytes bytes;
  bool ok = true;
  const double encode = BestSeconds(kRounds, [&] { ok &= codec.EncodeDelta(source, &bytes).ok(); });
  const double decode = BestSeconds(kRounds, [&] { ok &= codec.Decode(bytes, v.out).ok(); });
  const double add =
      BestSeconds(kRounds, [&] { ok &= codec.DecodeAccumulate(bytes, 1, v.sum).ok(); });
  if (!ok) return false;
  const double encode_rate = Rate(12 + message, encode);
  const double share = 100 * encode_rate / TriadRate(v);
  bench.Record(name + ": delta, feedback, encode", encode_rate, "GB/s");
  if (kind == DeltaCodec::kNone) {
    bench.Record(name + ": the same, share of triad", share, "%");
  } else {
    bench.AtLeast(name + ": the same, share of triad", share, "%", 90);
  }
  bench.Record(name + ": decode", Rate(message + 4, decode), "GB/s");
  bench.Record(name + ": decode and add", Rate(message + 16, add), "GB/s");
  return true;
}

int Run(int argc, char** argv) {
  Bench bench("codecs", argc, argv);
  Vectors vectors;
  bench.Record("triad, one core", TriadRate(vectors), "GB/s");
  const bool ok = MeasureCodec(bench, vectors, DeltaCodec::kNone, "none") &&
                  MeasureCodec(bench, vectors, DeltaCodec::kInt8, "int8");
  if (!ok) {
    std::fprintf(stderr, "a codec refused finite values\n");
    return 2;
  }
  const double bits =
      8.0 * static_cast<double>(CodecFor(DeltaCodec::kInt8).EncodedSizeMax(kValues));
  bench.AtMost("int8: bits per value", bits / kValues, "bit", 8.05);
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}
