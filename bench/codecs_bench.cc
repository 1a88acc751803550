// Delta codecs on one core against the memory they run from: bytes touched per second over what a
// plain triad a = b + s·c reaches on the same arrays in the same run; then what a parameter takes
// on the wire, in the first round and when feedback has settled; then the tiers, counted with all
// headers for 4 to 32 replicas.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "bench/bench.h"
#include "bench/round_traffic.h"
#include "common/rng.h"
#include "common/round_clock.h"
#include "compression/codec.h"
#include "compression/codec_table.h"
#include "compression/fixed_point.h"
#include "compression/loops.h"
#include "compression/low_rank.h"
#include "compression/mixed.h"

namespace skerry::bench {
namespace {

// 64 MB an array: beyond any core's cache, so that memory is the bound.
constexpr int64_t kValues = 16 << 20;
constexpr size_t kPattern = 1 << 20;
constexpr int kRounds = 5;

struct NamedCodec {
  DeltaCodec kind;
  const char* name;
};
constexpr NamedCodec kCodecs[] = {{DeltaCodec::kNone, "none"},       {DeltaCodec::kBf16, "bf16"},
                                  {DeltaCodec::kInt8, "int8"},       {DeltaCodec::kInt4, "int4"},
                                  {DeltaCodec::kTernary, "ternary"}, {DeltaCodec::kSign, "sign"},
                                  {DeltaCodec::kTopK, "topk"}};

enum class Tail { kBounded, kGaussian, kHeavy, kMixture };
constexpr std::array<const char*, 4> kTailNames = {"uniform", "gaussian", "heavy tail", "mixture"};

// One entry of a delta: a step of a bounded optimizer, a normal, a Student-t of four degrees, or
// normals of which one in ten is three and one in two hundred ten times as wide.
double Draw(Tail tail, Rng* rng) {
  if (tail == Tail::kBounded) return 2 * rng->Uniform() - 1;
  const double normal = rng->Normal();
  if (tail == Tail::kGaussian) return normal;
  if (tail == Tail::kMixture) {
    const uint64_t kind = rng->Below(200);
    return normal * (kind == 0 ? 10 : kind <= 20 ? 3 : 1);
  }
  double square = 0;
  for (int i = 0; i < 4; ++i) square += std::pow(rng->Normal(), 2);
  return normal / std::sqrt(square / 4);
}

// Tensors of 2^16 values, each with a scale of its own.
std::vector<float> Deltas(Tail tail, size_t n, uint64_t seed) {
  Rng rng(seed, "deltas");
  Rng scales(7, "scales");
  std::vector<float> values(n);
  double scale = 1;
  for (size_t i = 0; i < n; ++i) {
    if (i % (1 << 16) == 0) scale = 1e-3 * std::exp2(-6 * scales.Uniform());
    values[i] = static_cast<float>(scale * Draw(tail, &rng));
  }
  return values;
}

std::vector<float> Repeated(const std::vector<float>& pattern) {
  std::vector<float> values(kValues);
  for (size_t i = 0; i < values.size(); ++i) values[i] = pattern[i % pattern.size()];
  return values;
}

double Rate(double bytes_per_value, double seconds) {
  return 1e-9 * bytes_per_value * static_cast<double>(kValues) / seconds;
}

// base − theta + residual is a delta of the mixture, a quarter of it from the residual.
struct Vectors {
  std::vector<float> base = Repeated(Deltas(Tail::kGaussian, kPattern, 1));
  std::vector<float> theta = Repeated(Deltas(Tail::kMixture, kPattern, 2));
  std::vector<float> residual = Repeated(Deltas(Tail::kBounded, kPattern, 3));
  std::vector<float> out = std::vector<float>(kValues);
  std::vector<int64_t> sum = std::vector<int64_t>(kValues);
};

void Triad(Vectors& v) {
  const float* b = v.base.data();
  const float* c = v.theta.data();
  float* a = v.out.data();
#pragma GCC ivdep
  for (int64_t i = 0; i < kValues; ++i) a[i] = b[i] + 3.0f * c[i];
  Keep(a);
}

struct Seconds {
  double triad = 1e300, encode = 1e300, decode = 1e300, add = 1e300;
};

// The best of several rounds of all four in turn, as others share the memory.
Seconds MeasureInTurn(const Codec& codec, Vectors& v, Bytes* bytes) {
  const DeltaSource source{v.base, v.theta, v.residual};
  bool ok = true;
  Seconds best;
  const auto note = [](double* of, double seconds) { *of = std::min(*of, seconds); };
  for (int round = 0; round < kRounds; ++round) {
    note(&best.triad, BestSeconds(1, [&] { Triad(v); }));
    note(&best.encode, BestSeconds(1, [&] { ok &= codec.EncodeDelta(source, bytes).ok(); }));
    note(&best.add, BestSeconds(1, [&] { ok &= codec.DecodeAccumulate(*bytes, 1, v.sum).ok(); }));
    note(&best.decode, BestSeconds(1, [&] { ok &= codec.Decode(*bytes, v.out).ok(); }));
  }
  if (!ok) std::exit(2);
  return best;
}

// Encode reads three float32 and writes the message; decode reads the message and writes float32;
// accumulate reads the message and reads and writes an int64.
void MeasureSpeed(Bench& bench, Vectors& v, const NamedCodec& named) {
  const std::string name = named.name;
  Bytes bytes;
  const Seconds best = MeasureInTurn(CodecFor(named.kind), v, &bytes);
  const double message = static_cast<double>(bytes.size()) / kValues;
  const double triad = Rate(12, best.triad), encode = Rate(12 + message, best.encode),
               add = Rate(message + 16, best.add);
  bench.Record(name + ": triad beside it", triad, "GB/s");
  bench.Record(name + ": delta, feedback, encode", encode, "GB/s");
  const std::string share = name + ": the same, share of triad";
  if (named.kind == DeltaCodec::kNone) {
    bench.Record(share, 100 * encode / triad, "%");
  } else {
    bench.AtLeast(share, 100 * encode / triad, "%", 90);
  }
  bench.Record(name + ": decode", Rate(message + 4, best.decode), "GB/s");
  bench.Record(name + ": decode and add", add, "GB/s");
  bench.AtLeast(name + ": the same, share of triad", 100 * add / triad, "%", 90);
  if (named.kind == DeltaCodec::kTopK) {
    bench.AtLeast("topk: delta, feedback, select, pack", Rate(1, best.encode), "Gparam/s", 0.8);
  }
}

// Decoding into a tile that stays in the cache, as a round's mean does.
void MeasureTiles(Bench& bench, const Vectors& v, const NamedCodec& named) {
  const Codec& codec = CodecFor(named.kind);
  Bytes bytes;
  if (!codec.EncodeDelta({v.base, v.theta, v.residual}, &bytes).ok()) return;
  std::array<int64_t, 1024> tile = {};
  const double seconds = BestSeconds(kRounds, [&] {
    for (int64_t first = 0; first < kValues; first += 1024) {
      codec.AccumulateRange(bytes, kValues, first, 1, tile);
    }
    Keep(tile);
  });
  bench.Record(std::string(named.name) + ": decode and add, tile by tile", Rate(1, seconds),
               "Gparam/s");
}

// Square matrices of 1024, ranks as the starved tier's bits and the default's allow.
void MeasureLowRank(Bench& bench, Vectors& v) {
  constexpr int64_t kSide = 1024;
  static_assert(kValues % (kSide * kSide) == 0);
  for (const double bits : {0.15, 1.0}) {
    const LowRankCodec codec(MatrixShape(kValues / (kSide * kSide), {kSide, kSide}), bits,
                             BestLoops());
    Bytes bytes;
    const double encode = BestSeconds(1, [&] {
      (void)codec.EncodeDelta({v.base, v.theta, v.residual}, &bytes).ok();
    });
    const double add = BestSeconds(1, [&] { (void)codec.DecodeAccumulate(bytes, 1, v.sum).ok(); });
    const std::string name = absl::StrFormat("lowrank of %.2f bit: ", bits);
    bench.Record(name + "delta, feedback, encode", Rate(1, encode), "Gparam/s");
    bench.Record(name + "decode and add", Rate(1, add), "Gparam/s");
  }
}

// One end of a link: what it could not send it adds to the next message.
class Feedback {
 public:
  Feedback(DeltaCodec kind, size_t n) : codec_(CodecFor(kind)), residual_(n, 0.0f), decoded_(n) {}

  // What arrives of `input`; its bits per value through `bits`.
  const std::vector<float>& Send(const std::vector<float>& input, double* bits) {
    Bytes message;
    const DeltaSource source = {.base = input, .residual = residual_};
    const bool ok =
        codec_.EncodeDelta(source, &message).ok() && codec_.Decode(message, decoded_).ok();
    if (!ok) std::exit(2);
    for (size_t i = 0; i < input.size(); ++i) residual_[i] += input[i] - decoded_[i];
    *bits = 8.0 * static_cast<double>(message.size()) / static_cast<double>(input.size());
    return decoded_;
  }

 private:
  const Codec& codec_;
  std::vector<float> residual_, decoded_;
};

struct Traffic {
  double first = 0, up = 0, down = 0;
};

// Eight replicas, Nesterov momentum in between, `down` for the step's own way: the mean bits of the
// rounds from 20 to 30, and of the first message up.
Traffic MeasureTraffic(DeltaCodec up, DeltaCodec down, Tail tail) {
  constexpr size_t kReplicas = 8, kSize = 1 << 17;
  constexpr int kSettled = 20, kAll = 30;
  std::vector<Feedback> replicas(kReplicas, Feedback(up, kSize));
  Feedback server(down, kSize);
  std::vector<float> momentum(kSize, 0.0f), step(kSize);
  const auto drift = Deltas(tail, kSize, 99);
  Traffic out;
  for (int round = 0; round < kAll; ++round) {
    std::vector<float> mean(kSize, 0.0f);
    double bits = 0;
    for (size_t r = 0; r < kReplicas; ++r) {
      auto delta = Deltas(tail, kSize, 100 + static_cast<uint64_t>(round) * kReplicas + r);
      for (size_t i = 0; i < kSize; ++i) delta[i] = 0.7f * delta[i] + 0.3f * drift[i];
      const auto& arrived = replicas[r].Send(delta, &bits);
      if (round == 0 && r == 0) out.first = bits;
      if (round >= kSettled) out.up += bits / (kReplicas * (kAll - kSettled));
      for (size_t i = 0; i < kSize; ++i) mean[i] += arrived[i] / float{kReplicas};
    }
    for (size_t i = 0; i < kSize; ++i) {
      momentum[i] = 0.6f * momentum[i] + mean[i];
      step[i] = 0.7f * (mean[i] + 0.6f * momentum[i]);
    }
    server.Send(step, &bits);
    if (round >= kSettled) out.down += bits / (kAll - kSettled);
  }
  return out;
}

void MeasureBits(Bench& bench) {
  for (size_t t = 0; t < kTailNames.size(); ++t) {
    const auto tail = static_cast<Tail>(t);
    const std::string of = std::string(", ") + kTailNames[t];
    const Traffic ternary = MeasureTraffic(DeltaCodec::kTernary, DeltaCodec::kTernary, tail);
    bench.Record("ternary: first message" + of, ternary.first, "bit");
    bench.Record("ternary: up, settled" + of, ternary.up, "bit");
    bench.Record("ternary: down, settled" + of, ternary.down, "bit");
    bench.AtMost("ternary: up + down" + of, ternary.up + ternary.down, "bit", 2.0);
    const Traffic sparse = MeasureTraffic(DeltaCodec::kTopK, DeltaCodec::kTopK, tail);
    bench.Record("topk both ways: up + down" + of, sparse.up + sparse.down, "bit");
  }
}

// On the wire, with all headers, as a run sends it.
void MeasureTiers(Bench& bench) {
  struct Row {
    const char* name;
    OuterTier tier;
    double up_goal, both_goal;  // 0: none
  };
  for (const Row& row :
       {Row{"default", OuterTier::kDefault, 0, 2.0},
        Row{"starved", OuterTier::kStarved, 0.155, 0.5}, Row{"rich", OuterTier::kRich, 0, 0}}) {
    OuterConfig outer;
    outer.tier = row.tier;
    for (const size_t replicas : {4, 8, 16, 32}) {
      const RoundTraffic traffic =
          CountRoundTraffic(EffectiveOuter(outer), replicas, kTrafficParameters);
      const std::string of = absl::StrFormat("%s tier, %d replicas: ", row.name, replicas);
      const double both = traffic.up + traffic.down;
      if (row.up_goal > 0) {
        bench.AtMost(of + "up", traffic.up, "bit", row.up_goal);
      } else {
        bench.Record(of + "up", traffic.up, "bit");
      }
      if (row.both_goal > 0) {
        bench.AtMost(of + "up + down", both, "bit", row.both_goal);
      } else {
        bench.Record(of + "up + down", both, "bit");
      }
    }
  }
}

// A table of codecs for 64 tensors of unequal scale, at the error of int4 for all.
void MeasureTable(Bench& bench) {
  constexpr size_t kSize = 64 << 16;
  constexpr DeltaCodec kChoices[] = {DeltaCodec::kTopK, DeltaCodec::kSign, DeltaCodec::kTernary,
                                     DeltaCodec::kInt4, DeltaCodec::kInt8, DeltaCodec::kBf16};
  const std::vector<int64_t> parts(64, 1 << 16);
  const auto u = Deltas(Tail::kMixture, kSize, 5);
  PartStatistics statistics;
  const double seconds = BestSeconds(2, [&] { statistics = *MeasureParts(u, parts, kChoices); });
  const auto chosen = ChooseTable(parts, kChoices, statistics, {.like = 3});
  const auto mixed = MixedCodec::Make(chosen->table);
  Bytes table, uniform;
  const bool ok =
      (*mixed)->Encode(u, &table).ok() && CodecFor(DeltaCodec::kInt4).Encode(u, &uniform).ok();
  if (!ok) std::exit(2);
  const double saved = 1 - static_cast<double>(table.size()) / static_cast<double>(uniform.size());
  std::printf("%s", DescribeTable(chosen->table).c_str());
  bench.AtLeast("table: bytes saved over int4, equal error", 100 * saved, "%", 15);
  bench.Record("table: measuring 6 codecs", 1e-9 * double{kSize} / seconds, "Gparam/s");
}

int Run(int argc, char** argv) {
  Bench bench("codecs", argc, argv);
  std::printf("loops: %s\n", BestLoops().name);
  {
    Vectors vectors;
    for (const NamedCodec& named : kCodecs) MeasureSpeed(bench, vectors, named);
    for (const NamedCodec& named : kCodecs) MeasureTiles(bench, vectors, named);
    MeasureLowRank(bench, vectors);
  }
  const double n = double{kValues};
  const auto fixed_bits = [n](DeltaCodec kind) {
    return 8.0 * static_cast<double>(CodecFor(kind).EncodedSizeMax(kValues)) / n;
  };
  bench.AtMost("int8: bits per value", fixed_bits(DeltaCodec::kInt8), "bit", 8.05);
  bench.AtMost("int4: bits per value", fixed_bits(DeltaCodec::kInt4), "bit", 4.05);
  bench.AtMost("sign: bits per value", fixed_bits(DeltaCodec::kSign), "bit", 1.06);
  bench.Record("ternary: bits per value, at most", fixed_bits(DeltaCodec::kTernary), "bit");
  bench.Record("topk: bits per value, at most", fixed_bits(DeltaCodec::kTopK), "bit");
  MeasureTable(bench);
  MeasureBits(bench);
  MeasureTiers(bench);
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}
