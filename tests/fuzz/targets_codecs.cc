// Messages of parameter deltas and of boundary payloads: decoding is total, and what is accepted is
// finite.

#include <algorithm>
#include <cmath>

#include "common/check.h"
#include "compression/boundary_code.h"
#include "compression/codec.h"
#include "compression/codec_table.h"
#include "compression/low_rank.h"
#include "compression/mixed.h"
#include "tests/fuzz/targets.h"

namespace skerry {
namespace {

constexpr int64_t kValuesMax = 9000;  // more than two tiles of top-k
constexpr size_t kHeadBytes = 3;      // codec, number of values (2)

void RunCodec(const Codec& codec, std::span<const uint8_t> message, int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  std::vector<int64_t> sum(static_cast<size_t>(n));
  const bool is_message = codec.Check(message, n).ok();
  SKERRY_CHECK(codec.Decode(message, values).ok() == is_message, "Check says what Decode says");
  SKERRY_CHECK(codec.DecodeAccumulate(message, 3, sum).ok() == is_message, "and what sums say");
  SKERRY_CHECK(std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }),
               "what is decoded is finite");
}

const LowRankCodec& LowRank() {
  static const LowRankCodec codec({{40, 50}, {1, 300}}, 2.0, BestLoops());
  return codec;
}

// The codec (1 byte) · the number of values (2) · the message.
void RunDelta(std::span<const uint8_t> input) {
  if (input.size() < kHeadBytes) return;
  const int64_t n = (input[1] | int64_t{input[2]} << 8) % (kValuesMax + 1);
  const auto message = input.subspan(kHeadBytes);
  const auto kinds = static_cast<uint8_t>(DeltaCodec::kLast) + 1;
  const auto kind = static_cast<DeltaCodec>(input[0] % kinds);
  if (kind == DeltaCodec::kLowRank) return RunCodec(LowRank(), message, LowRank().values());
  RunCodec(CodecFor(kind), message, n);
  if (!IsBoundaryCodec(kind)) return;
  std::vector<float> values(static_cast<size_t>(n));
  DecodeBoundaryValues(kind, message, values).IgnoreError();
}

std::vector<Bytes> DeltaSeeds() {
  std::vector<Bytes> seeds;
  for (int kind = 0; kind <= static_cast<int>(DeltaCodec::kLast); ++kind) {
    for (const int64_t size : {int64_t{300}, int64_t{5000}}) {
      const bool shaped = static_cast<DeltaCodec>(kind) == DeltaCodec::kLowRank;
      const int64_t n = shaped ? LowRank().values() : size;
      std::vector<float> u(static_cast<size_t>(n));
      for (size_t i = 0; i < u.size(); ++i)
        u[i] = 1e-3f * std::sin(static_cast<float>(i * i % 97)) * static_cast<float>(i % 5);
      Bytes message;
      const Codec& codec = shaped ? LowRank() : CodecFor(static_cast<DeltaCodec>(kind));
      SKERRY_CHECK(codec.Encode(u, &message).ok(), "a seed");
      Bytes seed = {static_cast<uint8_t>(kind), static_cast<uint8_t>(n),
                    static_cast<uint8_t>(n >> 8)};
      seed.insert(seed.end(), message.begin(), message.end());
      seeds.push_back(std::move(seed));
    }
  }
  return seeds;
}

// The length of a codec table (1 byte) · the table · a message of it.
void RunTable(std::span<const uint8_t> input) {
  if (input.empty()) return;
  const auto packed = input.subspan(1, std::min<size_t>(input[0], input.size() - 1));
  const auto table = UnpackTable(packed);
  if (!table.ok()) return;
  SKERRY_CHECK(PackTable(*table) == Bytes(packed.begin(), packed.end()), "one way to pack");
  DescribeTable(*table);
  const auto codec = MixedCodec::Make(*table);
  if (!codec.ok() || (*codec)->values() > kValuesMax) return;
  RunCodec(**codec, input.subspan(1 + packed.size()), (*codec)->values());
}

std::vector<Bytes> TableSeeds() {
  const CodecTable table = {
      {512, DeltaCodec::kInt8}, {4096, DeltaCodec::kTopK}, {300, DeltaCodec::kTernary}};
  Bytes seed = PackTable(table);
  seed.insert(seed.begin(), static_cast<uint8_t>(seed.size()));
  std::vector<float> u(static_cast<size_t>(ValuesOf(table)), 1e-3f);
  Bytes message;
  SKERRY_CHECK((*MixedCodec::Make(table))->Encode(u, &message).ok(), "a seed");
  seed.insert(seed.end(), message.begin(), message.end());
  return {seed};
}

}  // namespace

std::vector<FuzzTarget> CodecTargets() {
  return {{"deltas", RunDelta, DeltaSeeds}, {"codec_table", RunTable, TableSeeds}};
}

}  // namespace skerry
