// Tables of codecs: how they are cut, chosen, written down; and that what they announce is sent.
#include "compression/codec_table.h"

#include <cmath>
#include <limits>

#include "compression/mixed.h"
#include "tests/compression/every_codec.h"

namespace skerry {
namespace {

constexpr DeltaCodec kCodecs[] = {DeltaCodec::kTopK, DeltaCodec::kSign, DeltaCodec::kTernary,
                                  DeltaCodec::kInt4, DeltaCodec::kInt8, DeltaCodec::kBf16};
constexpr int32_t kLikeInt4 = 3;

// Tensors of a stage, whose deltas differ by six octaves.
const std::vector<int64_t> kTensors = {64 * 192, 64, 64 * 64, 64 * 176, 64, 64 * 176, 64, 64 * 500};

std::vector<float> Deltas(uint64_t seed) {
  Rng rng(seed, "deltas"), scales(1, "scales");
  std::vector<float> u;
  for (const int64_t size : kTensors) {
    const double scale = 1e-3 * std::exp2(-6 * scales.Uniform());
    for (int64_t i = 0; i < size; ++i) u.push_back(static_cast<float>(scale * rng.Normal()));
  }
  return u;
}

PartStatistics Measured(uint64_t replicas) {
  PartStatistics sum;
  for (uint64_t r = 0; r < replicas; ++r) {
    const auto one = MeasureParts(Deltas(r), PartsOf(kTensors), kCodecs);
    REQUIRE(one.ok());
    REQUIRE(AddStatistics(*one, &sum).ok());
  }
  return sum;
}

double ErrorOf(const Codec& codec, const std::vector<float>& u) {
  const auto decoded = MustDecode(codec, MustEncode(codec, u), u.size());
  double error = 0;
  for (size_t i = 0; i < u.size(); ++i) error += std::pow(double{u[i]} - decoded[i], 2);
  return error;
}

TEST_CASE("CodecTable: boundaries move to the next block, small tensors share a part",
          "[compression]") {
  const auto parts = [](std::vector<int64_t> tensors) { return PartsOf(tensors); };
  CHECK(parts({512, 256, 100}) == std::vector<int64_t>{512, 256, 100});
  CHECK(parts({300, 300}) == std::vector<int64_t>{512, 88});
  CHECK(parts({100, 100, 100}) == std::vector<int64_t>{256, 44});
  CHECK(parts({200, 20}) == std::vector<int64_t>{220});
  CHECK(parts({100, 0, 156, 1}) == std::vector<int64_t>{256, 1});
  CHECK(parts({}).empty());
}

TEST_CASE("CodecTable: what a table announces is what a message of it takes and loses",
          "[compression]") {
  const auto parts = PartsOf(kTensors);
  const auto u = Deltas(0);
  const TableBudget budget = GENERATE(TableBudget{.like = kLikeInt4}, TableBudget{.bytes = 20'000},
                                      TableBudget{.error = 1e-3});
  const auto chosen = ChooseTable(parts, kCodecs, Measured(1), budget);
  REQUIRE(chosen.ok());
  const auto codec = MixedCodec::Make(chosen->table);
  REQUIRE(codec.ok());
  const auto header = static_cast<int64_t>(4 + 4 * parts.size());
  CHECK(static_cast<int64_t>(MustEncode(**codec, u).size()) == header + chosen->bytes);
  CHECK(ErrorOf(**codec, u) == Approx(chosen->error).epsilon(1e-9));
  if (budget.bytes >= 0) CHECK(chosen->bytes <= budget.bytes);
  if (budget.error >= 0) CHECK(chosen->error <= budget.error);
}

TEST_CASE("CodecTable: 15 % fewer bytes than int4 for all at no more error, headers included",
          "[compression]") {
  const auto chosen =
      ChooseTable(PartsOf(kTensors), kCodecs, Measured(4), TableBudget{.like = kLikeInt4});
  REQUIRE(chosen.ok());
  const auto mixed = MixedCodec::Make(chosen->table);
  const Codec& int4 = CodecFor(DeltaCodec::kInt4);
  // Of a delta that was not measured.
  const auto u = Deltas(77);
  CHECK(static_cast<double>(MustEncode(**mixed, u).size()) <=
        0.85 * static_cast<double>(MustEncode(int4, u).size()));
  CHECK(ErrorOf(**mixed, u) <= 1.05 * ErrorOf(int4, u));
}

TEST_CASE("CodecTable: equal statistics give equal tables, a larger budget a smaller error",
          "[compression]") {
  const auto parts = PartsOf(kTensors);
  const auto statistics = Measured(3);
  double before = std::numeric_limits<double>::infinity();
  for (int64_t bytes = 9'000; bytes < 300'000; bytes += bytes / 3) {
    const auto chosen = ChooseTable(parts, kCodecs, statistics, TableBudget{.bytes = bytes});
    REQUIRE(chosen.ok());
    CHECK(chosen->error <= before);
    before = chosen->error;
    const auto again = ChooseTable(parts, kCodecs, Measured(3), TableBudget{.bytes = bytes});
    CHECK(again->table == chosen->table);
    CHECK(TableFingerprint(again->table) == TableFingerprint(chosen->table));
  }
}

TEST_CASE("CodecTable: budgets and statistics that make no sense are refused",
          "[compression][error]") {
  const auto parts = PartsOf(kTensors);
  const auto statistics = Measured(1);
  const auto choose = [&](const TableBudget& budget) {
    return ChooseTable(parts, kCodecs, statistics, budget).status();
  };
  CHECK(absl::IsInvalidArgument(choose({})));
  CHECK(absl::IsInvalidArgument(choose({.bytes = 1000, .error = 1})));
  CHECK(absl::IsInvalidArgument(choose({.like = 6})));
  CHECK(absl::IsFailedPrecondition(choose({.bytes = 10})));
  CHECK(absl::IsFailedPrecondition(choose({.error = 0})));
  auto other = statistics;
  other.pop_back();
  CHECK_FALSE(ChooseTable(parts, kCodecs, other, {.bytes = 30'000}).ok());
  auto sum = statistics;
  CHECK_FALSE(AddStatistics(other, &sum).ok());
  other = statistics;
  other[0][0].error = NAN;
  CHECK_FALSE(AddStatistics(other, &sum).ok());
  other[0][0] = {std::numeric_limits<int64_t>::max(), 0};
  CHECK_FALSE(AddStatistics(other, &sum).ok());
  CHECK(sum[0][0].bytes == statistics[0][0].bytes);
}

TEST_CASE("CodecTable: a packed table unpacks to itself, other bytes are refused",
          "[compression][fuzz]") {
  const CodecTable table = {{512, DeltaCodec::kInt8}, {256, DeltaCodec::kTopK}, {3, {}}};
  const Bytes packed = PackTable(table);
  CHECK(packed.size() == 4 + 3 * 9);
  CHECK(*UnpackTable(packed) == table);
  for (size_t size = 0; size < packed.size(); ++size) {
    CHECK_FALSE(UnpackTable(std::span(packed).first(size)).ok());
  }
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed, "bytes");
    Bytes bytes = packed;
    bytes[rng.Below(bytes.size())] ^= static_cast<uint8_t>(1 << rng.Below(8));
    const auto unpacked = UnpackTable(bytes);
    if (!unpacked.ok()) continue;
    CHECK(CheckTable(*unpacked).ok());
    CHECK(PackTable(*unpacked) == bytes);
    CHECK(TableFingerprint(*unpacked) != TableFingerprint(table));
  }
}

TEST_CASE("CodecTable: an operator reads how many values travel as what", "[compression]") {
  CHECK(DescribeTable(
            {{512, DeltaCodec::kInt8}, {256, DeltaCodec::kTopK}, {256, DeltaCodec::kInt8}}) ==
        "int8         2 parts           768 values  75.0 %\n"
        "topk         1 parts           256 values  25.0 %\n");
}

}  // namespace
}  // namespace skerry
