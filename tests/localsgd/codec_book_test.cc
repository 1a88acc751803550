// A codec for each tensor in a replica: which message is of which table, whole and in pieces.
#include "localsgd/codec_book.h"

#include <algorithm>

#include "compression/mixed.h"
#include "localsgd/piece_reducer.h"
#include "localsgd/table_choice.h"
#include "tests/localsgd/stage_of_replicas.h"

namespace skerry {
namespace {

constexpr int64_t kValues = 3 * 4096 + 700;

// Parts that pieces cut.
CodecTable TableA() {
  return {{1024, DeltaCodec::kInt8},
          {4096 + 512, DeltaCodec::kTernary},
          {4096, DeltaCodec::kInt4},
          {kValues - 1024 - 4608 - 4096, DeltaCodec::kBf16}};
}
CodecTable TableB() {
  return {{kValues, DeltaCodec::kInt4}};
}

OuterConfig Config(ResidualPlace residual) {
  return Outer(0.7f, 0.6f, DeltaCodec::kInt8, residual);
}

}  // namespace

TEST_CASE("CodecBook: a round's messages are of the newest table that is in force",
          "[localsgd][tables]") {
  CodecBook book(Config(ResidualPlace::kBuffer), kValues);
  REQUIRE(book.SetTable(2, PackTable(TableA())).ok());
  REQUIRE(book.SetTable(5, PackTable(TableB())).ok());
  const auto table = [&](int64_t round) {
    const auto* mixed = dynamic_cast<const MixedCodec*>(book.Of(round).get());
    return mixed == nullptr ? CodecTable() : mixed->table();
  };
  CHECK(table(1).empty());
  CHECK(table(2) == TableA());
  CHECK(table(4) == TableA());
  CHECK(table(5) == TableB());
  CHECK(table(900) == TableB());
  const auto held = book.Of(4);
  CHECK(book.Remembers(0));
  book.ForgetBelow(5);
  CHECK(book.Remembers(5));
  CHECK_FALSE(book.Remembers(4));  // it would be taken for one of before all tables
  CHECK(table(5) == TableB());
  CHECK(table(4).empty());
  CHECK(held->EncodedSizeMax(kValues) > 0);  // who holds it may go on
}

TEST_CASE("CodecBook: bytes that are no table of the stage are refused and change nothing",
          "[localsgd][tables][error]") {
  CodecBook book(Config(ResidualPlace::kBuffer), kValues);
  CHECK(absl::IsInvalidArgument(book.SetTable(1, Bytes{1, 2, 3})));
  CHECK(absl::IsInvalidArgument(book.SetTable(1, PackTable({{512, DeltaCodec::kInt8}}))));
  CHECK(book.Of(1).get() == &CodecFor(DeltaCodec::kInt8));
}

TEST_CASE("CodecBook: pieces of a table decode to the bits of the whole message",
          "[localsgd][tables]") {
  const OuterConfig config = Config(ResidualPlace::kBuffer);
  const PieceCut cut = PieceCut{kValues, PieceCut::kTile};
  CodecBook whole(config, kValues), pieces(config, kValues, cut);
  REQUIRE(whole.SetTable(0, PackTable(TableA())).ok());
  REQUIRE(pieces.SetTable(0, PackTable(TableA())).ok());
  const auto u = RandomVector(kValues, 3, 0.01);
  Bytes message;
  std::vector<float> expected(u.size()), decoded(u.size());
  REQUIRE(whole.Of(0)->Encode(u, &message).ok());
  REQUIRE(whole.Of(0)->Decode(message, expected).ok());
  for (int32_t p = 0; p < cut.count(); ++p) {
    const auto first = static_cast<size_t>(cut.First(p)), size = static_cast<size_t>(cut.Size(p));
    const auto codec = pieces.OfPiece(0, p);
    REQUIRE(codec->Encode(std::span(u).subspan(first, size), &message).ok());
    REQUIRE(codec->Decode(message, std::span(decoded).subspan(first, size)).ok());
  }
  CHECK(SameBits(decoded, expected));
}

TEST_CASE("OuterReplica: a table comes into force mid-run, and one of another table is refused",
          "[localsgd][tables]") {
  const ResidualPlace place = GENERATE(ResidualPlace::kBuffer, ResidualPlace::kWeights);
  const auto start = RandomVector(kValues, 1, 0.1);
  Worker a(Config(place), start), b(Config(place), start), late(Config(place), start);
  for (Worker* w : {&a, &b}) REQUIRE(w->replica.codecs().SetTable(1, PackTable(TableA())).ok());
  for (int64_t round = 0; round < 3; ++round) {
    for (Worker* w : {&a, &b, &late}) {
      const auto moved = RandomVector(kValues, static_cast<uint64_t>(10 + round), 0.01);
      for (size_t i = 0; i < moved.size(); ++i) w->theta[i] += moved[i];
      w->message = **w->replica.Encode(w->theta);
    }
    const std::vector<OuterReplica::Accepted> of_a = {{1, a.message, true}, {1, b.message, false}};
    const std::vector<OuterReplica::Accepted> of_b = {{1, a.message, false}, {1, b.message, true}};
    REQUIRE(a.replica.Apply(of_a, a.theta).ok());
    REQUIRE(b.replica.Apply(of_b, b.theta).ok());
    CHECK(a.replica.BaseDigest() == b.replica.BaseDigest());
    const std::vector<OuterReplica::Accepted> others = {{1, a.message, false}};
    const absl::Status landed = late.replica.Apply(others, late.theta);
    CHECK(landed.ok() == (round == 0));
    if (round > 0) break;
  }
}

TEST_CASE("OuterReplica: what it measures is what a message of a table takes and loses",
          "[localsgd][tables]") {
  const OuterConfig config = Config(ResidualPlace::kBuffer);
  OuterReplica replica(config, RandomVector(kValues, 1, 0.1));
  auto theta = RandomVector(kValues, 2, 0.1);
  std::vector<int64_t> parts;
  for (const TablePart& part : TableA()) parts.push_back(part.values);
  const std::vector<DeltaCodec> codecs = {DeltaCodec::kInt8, DeltaCodec::kTernary,
                                          DeltaCodec::kInt4, DeltaCodec::kBf16};
  const auto measured = replica.Measure(theta, parts, codecs);
  REQUIRE(measured.ok());
  int64_t bytes = 4 + 4 * 4;  // fingerprint, ends
  for (size_t p = 0; p < 4; ++p) bytes += (*measured)[p][p].bytes;
  REQUIRE(replica.codecs().SetTable(0, PackTable(TableA())).ok());
  CHECK(static_cast<int64_t>(replica.Encode(theta)->size()) == bytes);
}

}  // namespace skerry
