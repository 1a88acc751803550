// A message of many codecs keeps every law of its parts.
#include "compression/mixed.h"

#include <algorithm>
#include <cmath>

#include "compression/fixed_point.h"
#include "tests/compression/every_codec.h"

namespace skerry {
namespace {

// Every codec once, some twice, tensors of all sizes; the last ends in the middle of a block.
CodecTable EveryKind() {
  return {{4096, DeltaCodec::kTopK},   {256, DeltaCodec::kNone},     {512, DeltaCodec::kInt8},
          {1280, DeltaCodec::kInt4},   {1024, DeltaCodec::kTernary}, {256, DeltaCodec::kBf16},
          {768, DeltaCodec::kTernary}, {5120, DeltaCodec::kTopK},    {77, DeltaCodec::kSign}};
}

std::unique_ptr<const MixedCodec> Make(const CodecTable& table) {
  auto codec = MixedCodec::Make(table);
  REQUIRE(codec.ok());
  return *std::move(codec);
}

CodecTable RandomTable(uint64_t seed) {
  Rng rng(seed, "table");
  CodecTable table(1 + rng.Below(12));
  for (TablePart& part : table) {
    part.values = 256 * static_cast<int64_t>(1 + rng.Below(20));
    part.codec = static_cast<DeltaCodec>(rng.Below(static_cast<uint64_t>(kLastShapeless) + 1));
  }
  table.back().values -= static_cast<int64_t>(rng.Below(256));
  return table;
}

TEST_CASE("Mixed: each part is what its codec alone makes of it", "[compression]") {
  const CodecTable table = EveryKind();
  const auto codec = Make(table);
  const auto u = HeavyTail(static_cast<size_t>(codec->values()), 1);
  const Bytes message = MustEncode(*codec, u);
  const auto decoded = MustDecode(*codec, message, u.size());
  size_t first = 0, bytes = 4 + 4 * table.size();
  for (const TablePart& part : table) {
    const auto count = static_cast<size_t>(part.values);
    const Bytes alone = MustEncode(CodecFor(part.codec), std::span(u).subspan(first, count));
    CHECK(std::equal(alone.begin(), alone.end(), message.begin() + static_cast<int64_t>(bytes)));
    CHECK(SameBits(std::span<const float>(decoded).subspan(first, count),
                   std::span<const float>(MustDecode(CodecFor(part.codec), alone, count))));
    first += count;
    bytes += alone.size();
  }
  CHECK(message.size() == bytes);
}

TEST_CASE("Mixed: sizes lie within the bounds, what was decoded encodes to itself",
          "[compression]") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const auto codec = Make(RandomTable(seed));
    const auto n = static_cast<size_t>(codec->values());
    for (const auto& u : {HeavyTail(n, seed), Gaussian(n, seed), std::vector<float>(n, 0.25f),
                          std::vector<float>(n, 0.0f)}) {
      const Bytes message = MustEncode(*codec, u);
      CHECK(static_cast<int64_t>(message.size()) >= codec->EncodedSizeMin(codec->values()));
      CHECK(static_cast<int64_t>(message.size()) <= codec->EncodedSizeMax(codec->values()));
      CHECK(MustEncode(*codec, MustDecode(*codec, message, n)) == message);
    }
  }
}

TEST_CASE("Mixed: the same bits on every instruction set, and from the fused difference",
          "[compression]") {
  const auto plain = *MixedCodec::Make(EveryKind(), BaselineLoops());
  const auto fast = Make(EveryKind());
  const auto n = static_cast<size_t>(fast->values());
  const auto base = Gaussian(n, 1), theta = HeavyTail(n, 2), residual = Gaussian(n, 3);
  const DeltaSource source = {base, theta, residual};
  Bytes message, other;
  REQUIRE(fast->EncodeDelta(source, &message).ok());
  REQUIRE(plain->EncodeDelta(source, &other).ok());
  CHECK(message == other);
  CHECK(SameBits(MustDecode(*fast, message, n), MustDecode(*plain, message, n)));
  std::vector<float> u(n);
  for (size_t i = 0; i < n; ++i) u[i] = base[i] - theta[i] + residual[i];
  CHECK(MustEncode(*fast, u) == message);
  const auto halves = Halves(residual);
  const auto rest = Widened(halves);
  for (size_t i = 0; i < n; ++i) u[i] = base[i] - theta[i] + rest[i];
  REQUIRE(fast->EncodeDelta({.base = base, .theta = theta, .halves = halves}, &message).ok());
  CHECK(MustEncode(*fast, u) == message);
}

TEST_CASE("Mixed: tiles that cross parts are the message, sums forget the order", "[compression]") {
  const auto codec = Make(EveryKind());
  const auto n = static_cast<size_t>(codec->values());
  const Bytes a = MustEncode(*codec, HeavyTail(n, 1)), b = MustEncode(*codec, Gaussian(n, 2));
  std::vector<int64_t> one(n, 0), other(n, 0), tiled(n, 0);
  REQUIRE(codec->DecodeAccumulate(a, 3, one).ok());
  REQUIRE(codec->DecodeAccumulate(b, 5, one).ok());
  REQUIRE(codec->DecodeAccumulate(b, 5, other).ok());
  REQUIRE(codec->DecodeAccumulate(a, 3, other).ok());
  CHECK(one == other);
  std::vector<float> values(n);
  for (size_t first = 0; first < n; first += 768) {
    const size_t count = std::min<size_t>(768, n - first);
    const auto at = static_cast<int64_t>(first);
    const auto part = std::span(tiled).subspan(first, count);
    codec->AccumulateRange(a, codec->values(), at, 3, part);
    codec->AccumulateRange(b, codec->values(), at, 5, part);
    codec->DecodeRange(a, codec->values(), at, std::span(values).subspan(first, count));
  }
  CHECK(tiled == one);
  CHECK(SameBits(values, MustDecode(*codec, a, n)));
}

TEST_CASE("Mixed: a value that is not finite voids the message and is named",
          "[compression][error]") {
  const auto codec = Make(EveryKind());
  const float bad = GENERATE(NAN, INFINITY, 2033.0f);
  const size_t at = GENERATE(0u, 4100u, 5000u, 7000u, 13388u);
  auto u = Gaussian(static_cast<size_t>(codec->values()), 4);
  u[at] = bad;
  Bytes out;
  const absl::Status status = codec->Encode(u, &out);
  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()).find("value " + std::to_string(at)) != std::string::npos);
}

TEST_CASE("Mixed: a message of another table is refused", "[compression][error]") {
  CodecTable table = EveryKind();
  const auto codec = Make(table);
  const auto n = static_cast<size_t>(codec->values());
  const Bytes message = MustEncode(*codec, Gaussian(n, 4));
  std::swap(table[4].codec, table[6].codec);  // both ternary: the same table
  CHECK(Make(table)->Check(message, codec->values()).ok());
  std::swap(table[2].codec, table[3].codec);
  CHECK_FALSE(Make(table)->Check(message, codec->values()).ok());
}

TEST_CASE("Mixed: mutated messages are refused or decode to finite values on the grid",
          "[compression][fuzz]") {
  int accepted = 0, refused = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    Rng rng(seed, "mutation");
    const auto codec = Make(RandomTable(seed % 50));
    const auto n = static_cast<size_t>(codec->values());
    Bytes bytes = MustEncode(*codec, Gaussian(n, seed % 7));
    const size_t front = 4 + 4 * codec->table().size();
    for (uint64_t i = rng.Below(4); i > 0; --i) {
      const uint64_t within = rng.Below(3) == 0 ? front : bytes.size();
      bytes[rng.Below(within)] ^= static_cast<uint8_t>(1 << rng.Below(8));
    }
    if (rng.Below(8) == 0) bytes.resize(rng.Below(bytes.size() + 1));
    const auto exact = std::make_unique<uint8_t[]>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), exact.get());
    const std::span<const uint8_t> copy(exact.get(), bytes.size());
    std::vector<float> values(n, 5.0f);
    std::vector<int64_t> sum(n, 5);
    const bool ok = codec->Decode(copy, values).ok();
    REQUIRE(codec->DecodeAccumulate(copy, 1, sum).ok() == ok);
    bool sound = true;
    for (size_t i = 0; i < n; ++i) {
      const double units = static_cast<double>(values[i]) / kQuantum;
      sound &= ok ? std::fabs(values[i]) <= 2048.0f && static_cast<double>(sum[i] - 5) == units
                  : values[i] == 5.0f && sum[i] == 5;
    }
    REQUIRE(sound);
    ++(ok ? accepted : refused);
  }
  CHECK(accepted > 300);
  CHECK(refused > 300);
}

}  // namespace
}  // namespace skerry
