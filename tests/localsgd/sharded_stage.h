// A stage of replicas in a test whose rounds are sharded: real replicas and real reducers.
#pragma once

#include <catch2/catch.hpp>
#include <set>
#include <utility>

#include "localsgd/piece_reducer.h"
#include "tests/localsgd/stage_of_replicas.h"

namespace skerry {

inline constexpr size_t kParameters = 3 * 4096 + 700;

inline DownCodec Down(DeltaCodec codec) {
  return DownCodec{static_cast<uint8_t>(1 + static_cast<uint8_t>(codec))};
}

// Replicas and their reducers; piece p is summed by replica p mod R, until it is given to another.
struct ShardedStage {
  PieceCut cut = PieceCut{kParameters, PieceCut::kTile};
  std::vector<Worker> workers;
  std::vector<PieceReducer> reducers;
  std::vector<std::vector<Bytes>> pieces;  // of each worker
  std::vector<size_t> reducer_of;          // by piece

  ShardedStage(size_t count, const OuterConfig& config) {
    OuterReplicaOptions options;
    options.cut = cut;
    workers = Stage(count, config, RandomVector(kParameters, 1, 0.1), options);
    reducers.assign(count, PieceReducer(config, cut));
    pieces.resize(count);
    for (int32_t p = 0; p < cut.count(); ++p) reducer_of.push_back(static_cast<size_t>(p) % count);
  }
  void Train(uint64_t seed) {
    for (size_t c = 0; c < workers.size(); ++c) {
      const auto moved = RandomVector(kParameters, 100 * seed + c, 0.01);
      for (size_t i = 0; i < kParameters; ++i) workers[c].theta[i] += moved[i];
    }
  }
  void Encode() {
    for (size_t c = 0; c < workers.size(); ++c) {
      auto encoded = workers[c].replica.EncodePieces(workers[c].theta);
      REQUIRE(encoded.ok());
      pieces[c] = CopiesOf(*encoded);
    }
  }
  PieceReducer& ReducerOf(int32_t piece) {
    return reducers[reducer_of[static_cast<size_t>(piece)]];
  }
  std::set<int32_t> PartOf(size_t reducer) const {
    std::set<int32_t> part;
    for (int32_t p = 0; p < cut.count(); ++p) {
      if (reducer_of[static_cast<size_t>(p)] == reducer) part.insert(p);
    }
    return part;
  }
  std::vector<RoundMessage> Messages(int32_t piece, const std::vector<size_t>& accepted) const {
    std::vector<RoundMessage> messages;
    for (const size_t c : accepted) messages.push_back({1, pieces[c][static_cast<size_t>(piece)]});
    return messages;
  }
  std::vector<Bytes> Reduce(const std::vector<size_t>& accepted) {
    std::vector<Bytes> sums;
    for (int32_t p = 0; p < cut.count(); ++p) {
      auto sum = ReducerOf(p).Reduce(p, Messages(p, accepted));
      REQUIRE(sum.ok());
      sums.push_back(*std::move(sum));
    }
    return sums;
  }
  void Land(const std::vector<Bytes>& sums, const std::vector<size_t>& accepted) {
    const std::set<size_t> in(accepted.begin(), accepted.end());
    const std::vector<std::span<const uint8_t>> spans(sums.begin(), sums.end());
    for (int32_t p = 0; p < cut.count(); ++p) {
      REQUIRE(ReducerOf(p).Land(p, Messages(p, accepted), spans[static_cast<size_t>(p)]).ok());
    }
    for (size_t c = 0; c < workers.size(); ++c) {
      REQUIRE(workers[c].replica.ApplySums(spans, in.contains(c), workers[c].theta).ok());
    }
  }
  void Round(uint64_t seed, const std::vector<size_t>& accepted) {
    Train(seed);
    Encode();
    Land(Reduce(accepted), accepted);
  }
};

inline std::vector<float> DecodePieces(const PieceCut& cut, DeltaCodec codec,
                                       const std::vector<Bytes>& pieces) {
  std::vector<float> values(static_cast<size_t>(cut.parameters));
  const CodecBook book(PlainMean(ResidualPlace::kBuffer, codec), cut.parameters, cut);
  for (int32_t p = 0; p < cut.count(); ++p) {
    const auto part = std::span(values).subspan(static_cast<size_t>(cut.First(p)),
                                                static_cast<size_t>(cut.Size(p)));
    REQUIRE(book.OfPiece(0, p)->Decode(pieces[static_cast<size_t>(p)], part).ok());
  }
  return values;
}

}  // namespace skerry
