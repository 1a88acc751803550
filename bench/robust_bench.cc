// What a robust mean of a round costs on one thread, beside the plain mean of the same messages in
// the same run: eight replicas, one of them wild.
#include <array>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "common/rng.h"
#include "localsgd/round_mean.h"

namespace skerry::bench {
namespace {

constexpr int64_t kValues = 4 << 20;
constexpr size_t kReplicas = 8;
constexpr int kRounds = 5;

std::vector<Bytes> Messages(DeltaCodec kind) {
  std::vector<Bytes> messages(kReplicas);
  std::vector<float> delta(kValues);
  for (size_t r = 0; r < kReplicas; ++r) {
    Rng rng(r, "deltas");
    for (float& v : delta) v = static_cast<float>((r == 0 ? 1.0 : 1e-3) * rng.Normal());
    if (!CodecFor(kind).Encode(delta, &messages[r]).ok()) std::exit(2);
  }
  return messages;
}

// Seconds for all of d, tile by tile, checks included.
double Seconds(const Codec& codec, const std::vector<Bytes>& messages,
               const RobustOptions& options) {
  std::vector<RoundMessage> round;
  for (const Bytes& message : messages) round.push_back({1, message});
  std::array<float, RoundMean::kTile> d;
  return BestSeconds(kRounds, [&] {
    const auto mean = RoundMean::Make(codec, kValues, round, 0, options);
    if (!mean.ok()) std::exit(2);
    for (int64_t first = 0; first < kValues; first += RoundMean::kTile) mean->Tile(first, d);
    Keep(d);
  });
}

void Measure(Bench& bench, DeltaCodec kind, const std::string& name) {
  const std::vector<Bytes> messages = Messages(kind);
  const Codec& codec = CodecFor(kind);
  const double plain = Seconds(codec, messages, {});
  const double parameters = 1e-9 * static_cast<double>(kValues);
  bench.Record(name + ": plain mean", parameters / plain, "Gparam/s");
  struct Mode {
    OuterRobust mode;
    const char* name;
  };
  for (const Mode& mode : {Mode{OuterRobust::kScreen, "screen"}, Mode{OuterRobust::kClip, "clip"},
                           Mode{OuterRobust::kTrim, "trim"}}) {
    const double seconds = Seconds(codec, messages, {mode.mode, 3, 0.2});
    bench.Record(name + ": " + mode.name, parameters / seconds, "Gparam/s");
    bench.Record(name + ": " + mode.name + ", times the plain mean", seconds / plain, "");
  }
}

int Run(int argc, char** argv) {
  Bench bench("robust", argc, argv);
  Measure(bench, DeltaCodec::kInt8, "int8");
  Measure(bench, DeltaCodec::kInt4, "int4");
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}
