// Robust means: what wild messages can do, and what nothing wild costs.
#include "localsgd/robust.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "localsgd/round_mean.h"
#include "tests/localsgd/stage_of_replicas.h"

namespace skerry {
namespace {

constexpr size_t kValues = 3000;

using Vectors = std::vector<std::vector<float>>;

RobustOptions With(OuterRobust mode, double limit = 3, double trim = 0.25) {
  return {mode, limit, trim};
}

std::vector<OuterRobust> EveryMode() {
  return {OuterRobust::kScreen, OuterRobust::kClip, OuterRobust::kTrim};
}

struct Meant {
  std::vector<float> d;
  std::vector<bool> screened;
};

Meant MeanOfMessages(const Codec& codec, const std::vector<Bytes>& messages,
                     const RobustOptions& robust) {
  std::vector<RoundMessage> round;
  for (const Bytes& message : messages) round.push_back({100, message});
  const auto mean = RoundMean::Make(codec, kValues, round, 0, robust);
  REQUIRE(mean.ok());
  Meant out{std::vector<float>(kValues), mean->screened()};
  for (size_t first = 0; first < kValues; first += RoundMean::kTile) {
    const size_t count = std::min<size_t>(RoundMean::kTile, kValues - first);
    mean->Tile(static_cast<int64_t>(first), std::span(out.d).subspan(first, count));
  }
  return out;
}

std::vector<Bytes> Encoded(const Codec& codec, const Vectors& vectors) {
  std::vector<Bytes> messages(vectors.size());
  for (size_t i = 0; i < vectors.size(); ++i) REQUIRE(codec.Encode(vectors[i], &messages[i]).ok());
  return messages;
}

Meant MeanOf(const Vectors& vectors, const RobustOptions& robust) {
  const Codec& codec = CodecFor(DeltaCodec::kNone);
  return MeanOfMessages(codec, Encoded(codec, vectors), robust);
}

// A common direction, and what each adds of its own: as large together as alone.
Vectors Honest(size_t count, uint64_t seed = 1) {
  Vectors all;
  for (size_t c = 0; c < count; ++c) {
    auto v = RandomVector(kValues, 1000 * seed, 0.01);
    const auto own = RandomVector(kValues, 1000 * seed + 1 + c, 0.01);
    for (size_t i = 0; i < kValues; ++i) v[i] += own[i];
    all.push_back(std::move(v));
  }
  return all;
}

std::vector<float> Scaled(std::vector<float> v, float factor) {
  for (float& x : v) x *= factor;
  return v;
}

double Distance(std::span<const float> a, std::span<const float> b) {
  double square = 0;
  for (size_t i = 0; i < a.size(); ++i) square += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(square);
}

}  // namespace

TEST_CASE("Robust: the modes of equal messages are the message, to the bit", "[localsgd]") {
  for (const DeltaCodec kind : EveryShapelessCodec()) {
    const Codec& codec = CodecFor(kind);
    for (const size_t count : {1, 2, 3, 7, 12, 700}) {
      if (count > 12 && kind != DeltaCodec::kInt8) continue;
      const auto messages = Encoded(codec, Vectors(count, RandomVector(kValues, 2, 0.01)));
      const Meant plain = MeanOfMessages(codec, messages, {});
      for (const OuterRobust mode : EveryMode()) {
        INFO("codec " << int(kind) << " mode " << int(mode) << " count " << count);
        const Meant robust = MeanOfMessages(codec, messages, With(mode));
        CHECK(SameBits(robust.d, plain.d));
        CHECK(std::count(robust.screened.begin(), robust.screened.end(), true) == 0);
      }
    }
  }
}

TEST_CASE("Robust: where nobody is wild, screen and clip are the plain mean to the bit",
          "[localsgd]") {
  for (const size_t count : {3, 4, 5, 8, 11}) {
    const Vectors honest = Honest(count);
    const Meant plain = MeanOf(honest, {});
    CHECK(SameBits(MeanOf(honest, With(OuterRobust::kScreen)).d, plain.d));
    CHECK(SameBits(MeanOf(honest, With(OuterRobust::kClip)).d, plain.d));
  }
}

TEST_CASE("Screen: tokens and rounds weigh as in the plain mean, to the bit", "[localsgd]") {
  const Codec& codec = CodecFor(DeltaCodec::kInt8);
  Vectors vectors = Honest(5);
  vectors[4] = Scaled(vectors[4], 4.0f);  // of four rounds, so it is not too long
  const auto messages = Encoded(codec, vectors);
  std::vector<RoundMessage> round;
  for (size_t i = 0; i < messages.size(); ++i) {
    round.push_back({100 + 50 * static_cast<int64_t>(i), messages[i], i == 4 ? 4 : 1});
  }
  const auto mean_of = [&](const RobustOptions& robust) {
    const auto mean = RoundMean::Make(codec, kValues, round, 0, robust);
    REQUIRE(mean.ok());
    std::vector<float> d(RoundMean::kTile);
    mean->Tile(0, d);
    return d;
  };
  CHECK(SameBits(mean_of(With(OuterRobust::kScreen)), mean_of({})));
}

// An optimizer moves on a little when there was no gradient: were those the measure, who worked
// would be wild.
TEST_CASE("Screen: who covers no token measures nobody and moves nothing", "[localsgd]") {
  const Codec& codec = CodecFor(DeltaCodec::kInt8);
  Vectors vectors = Honest(7);
  for (size_t i = 3; i < 7; ++i) vectors[i] = Scaled(vectors[i], 0.01f);
  const auto messages = Encoded(codec, vectors);
  const auto mean_of = [&](size_t count) {
    std::vector<RoundMessage> round;
    for (size_t i = 0; i < count; ++i) round.push_back({i < 3 ? 100 : 0, messages[i], 1});
    const auto mean = RoundMean::Make(codec, kValues, round, 0, With(OuterRobust::kScreen));
    REQUIRE(mean.ok());
    CHECK(mean->screened() == std::vector<bool>(count, false));
    std::vector<float> d(RoundMean::kTile);
    mean->Tile(0, d);
    return d;
  };
  CHECK(SameBits(mean_of(7), mean_of(3)));
}

TEST_CASE("Robust: any order of the messages gives the same bits and names the same sender",
          "[localsgd]") {
  const DeltaCodec kind = GENERATE(from_range(EveryShapelessCodec()));
  const OuterRobust mode = GENERATE(from_range(EveryMode()));
  const Codec& codec = CodecFor(kind);
  Vectors vectors = Honest(5);
  vectors[3] = Scaled(vectors[3], -40.0f);
  const auto messages = Encoded(codec, vectors);
  std::vector<size_t> order = {0, 1, 2, 3, 4};
  std::vector<float> first;
  do {
    std::vector<Bytes> permuted;
    for (const size_t c : order) permuted.push_back(messages[c]);
    const Meant robust = MeanOfMessages(codec, permuted, With(mode, 2));
    if (first.empty()) first = robust.d;
    REQUIRE(SameBits(robust.d, first));
    // What is mostly zeros cannot be trimmed for its own: most of its values are the median.
    const bool is_sparse = kind == DeltaCodec::kTopK || kind == DeltaCodec::kTernary;
    if (mode == OuterRobust::kTrim && is_sparse) continue;
    for (size_t i = 0; i < order.size(); ++i) REQUIRE(robust.screened[i] == (order[i] == 3));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("Screen: a wild message of any size moves nothing", "[localsgd]") {
  Vectors vectors = Honest(4);
  const Meant honest = MeanOf(vectors, {});
  for (const float factor : {10.0f, -1000.0f, 4e4f}) {
    Vectors with_liar = vectors;
    with_liar.push_back(Scaled(vectors[0], factor));
    const Meant screened = MeanOf(with_liar, With(OuterRobust::kScreen));
    CHECK(SameBits(screened.d, honest.d));
    CHECK(screened.screened == std::vector<bool>{false, false, false, false, true});
  }
}

TEST_CASE("Screen: nobody pulls by his tokens more than three times as hard as the median",
          "[localsgd]") {
  const std::vector<double> norms = {1, 1, 2, 1};
  CHECK(BelievedTokens(norms, {10, 20, 30, 40}, 3) == std::vector<int64_t>{10, 20, 30, 40});
  // Pulls 10, 20, 60 and 4000: the lower median is 20.
  CHECK(BelievedTokens(norms, {10, 20, 30, 4000}, 3) == std::vector<int64_t>{10, 20, 30, 60});
  CHECK(BelievedTokens(norms, {10, 20, 4000, 40}, 3) == std::vector<int64_t>{10, 20, 30, 40});
  // Of two that did something nobody can say who is wild.
  CHECK(BelievedTokens(norms, {10, 4000, 0, 0}, 3) == std::vector<int64_t>{10, 4000, 0, 0});
}

TEST_CASE("Screen: fewer than three are never screened, nor are all, nor who was idle",
          "[localsgd]") {
  CHECK(ScreenWeights(std::vector{1.0, 1e6}, 3).weights == std::vector<int64_t>{1, 1});
  CHECK(ScreenWeights(std::vector{1.0, 2.0, 1e6}, 3).weights == std::vector<int64_t>{1, 1, 0});
  CHECK(ScreenWeights(std::vector{1.0, 10.0, 100.0}, 1).weights == std::vector<int64_t>{1, 1, 0});
  // Three had nothing to do; of the two who had, nobody knows who is wild.
  CHECK(ScreenWeights(std::vector{0.0, 0.0, 0.0, 1.0, 2.0}, 1).weights ==
        std::vector<int64_t>{1, 1, 1, 1, 1});
  CHECK(ScreenWeights(std::vector{0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 1.0, 90.0}, 3).weights ==
        std::vector<int64_t>{1, 1, 1, 1, 1, 1, 1, 0});
}

TEST_CASE("Trim: every parameter stays between the honest ones, whatever one says", "[localsgd]") {
  const Vectors honest = Honest(4);
  for (const float factor : {1000.0f, -1.0f, -1000.0f, 3e4f}) {
    Vectors vectors = honest;
    vectors.push_back(Scaled(RandomVector(kValues, 77, 0.01), factor));
    const Meant trimmed = MeanOf(vectors, With(OuterRobust::kTrim, 3, 0.2));
    bool inside = true;
    for (size_t i = 0; i < kValues; ++i) {
      float low = honest[0][i], high = honest[0][i];
      for (const auto& v : honest) {
        low = std::min(low, v[i]);
        high = std::max(high, v[i]);
      }
      inside = inside && trimmed.d[i] >= low - 1e-9f && trimmed.d[i] <= high + 1e-9f;
    }
    CHECK(inside);
    CHECK(trimmed.screened == std::vector<bool>{false, false, false, false, std::abs(factor) > 1});
  }
}

TEST_CASE("Trim: it is the mean of what sorting leaves", "[localsgd]") {
  for (const size_t count : {3, 4, 5, 8, 9, 13, 16, 21}) {
    const Vectors vectors = Honest(count, count);
    const auto k = static_cast<size_t>(TrimmedAtEachEnd(int64_t(count), 0.3));
    const Meant trimmed = MeanOf(vectors, With(OuterRobust::kTrim, 3, 0.3));
    double worst = 0;
    for (size_t i = 0; i < kValues; ++i) {
      std::vector<double> column;
      for (const auto& v : vectors) column.push_back(v[i]);
      std::sort(column.begin(), column.end());
      const double mean =
          std::accumulate(column.begin() + int64_t(k), column.end() - int64_t(k), 0.0) /
          double(count - 2 * k);
      worst = std::max(worst, std::abs(mean - trimmed.d[i]));
    }
    INFO("count " << count << " k " << k);
    CHECK(worst < 4e-9);  // of values of some hundredths, in float32
  }
}

TEST_CASE("Trim: so many are left out at each end", "[localsgd]") {
  CHECK(TrimmedAtEachEnd(2, 0.49) == 0);
  CHECK(TrimmedAtEachEnd(3, 0.2) == 1);  // asked for, so at least one
  CHECK(TrimmedAtEachEnd(4, 0.2) == 1);
  CHECK(TrimmedAtEachEnd(10, 0.2) == 2);
  CHECK(TrimmedAtEachEnd(20, double{0.35f}) == 7);
  CHECK(TrimmedAtEachEnd(4, 0.49) == 1);
  CHECK(TrimmedAtEachEnd(1024, 0.49) == 501);
  CHECK(TrimmedAtEachEnd(10, 0) == 0);
}

namespace {

// Karimireddy, He, Jaggi 2021 word by word, in float64, with the radius and the start of robust.h.
std::vector<double> NaiveCenteredClip(const Vectors& vectors, double limit) {
  const size_t count = vectors.size();
  double radius = 0;
  size_t start = 0;
  for (size_t i = 0; i < count; ++i) {
    std::vector<double> distances;
    for (const auto& other : vectors) distances.push_back(Distance(vectors[i], other));
    std::nth_element(distances.begin(), distances.begin() + int64_t(count / 2), distances.end());
    if (i > 0 && distances[count / 2] >= radius) continue;
    radius = distances[count / 2];
    start = i;
  }
  radius *= limit;
  std::vector<double> v(vectors[start].begin(), vectors[start].end());
  for (int iteration = 0; iteration < 200; ++iteration) {
    std::vector<double> moved = v;
    for (const auto& x : vectors) {
      double square = 0;
      for (size_t i = 0; i < v.size(); ++i) square += (x[i] - v[i]) * (x[i] - v[i]);
      const double drawn = std::min(1.0, radius / std::sqrt(square));
      for (size_t i = 0; i < v.size(); ++i) moved[i] += (x[i] - v[i]) * drawn / double(count);
    }
    v = moved;
  }
  return v;
}

}  // namespace

TEST_CASE("Clip: it is CenteredClip, to the grid of its weights", "[localsgd]") {
  const float factor = GENERATE(2.0f, 8.0f, -5.0f, -30.0f);
  const double limit = GENERATE(1.0, 1.5, 3.0);
  for (const size_t count : {4, 5, 8}) {
    Vectors vectors = Honest(count, 3);
    vectors[1] = Scaled(vectors[1], factor);
    const auto wanted = NaiveCenteredClip(vectors, limit);
    const Meant got = MeanOf(vectors, With(OuterRobust::kClip, limit));
    double square = 0;
    for (size_t i = 0; i < kValues; ++i) square += std::pow(got.d[i] - wanted[i], 2);
    // Every weight is off by at most half a step of 1024 / R, relative to a full one.
    double bound = 0;
    for (const auto& v : vectors) {
      double apart = 0;
      for (size_t i = 0; i < kValues; ++i) apart += std::pow(v[i] - wanted[i], 2);
      bound += std::sqrt(apart);
    }
    INFO("factor " << factor << " limit " << limit << " count " << count);
    CHECK(std::sqrt(square) <= bound * 0.5 / 1024 * double(count) / (double(count) / 2));
  }
}

TEST_CASE("Breakdown: as many liars as leave a majority honest cannot carry the mean off",
          "[localsgd]") {
  for (const size_t count : {3, 5, 8, 9}) {
    const size_t liars = (count - 1) / 2;
    Vectors vectors = Honest(count, 5);
    const Vectors honest(vectors.begin() + int64_t(liars), vectors.end());
    const Meant wanted = MeanOf(honest, {});
    double spread = 0;
    for (const auto& v : honest) spread = std::max(spread, Distance(v, wanted.d));
    const float size = GENERATE(100.0f, 5000.0f);
    // Together, in one direction: the worst they can do.
    for (size_t c = 0; c < liars; ++c) vectors[c] = Scaled(vectors[0], c == 0 ? -size : 1.0f);
    INFO("count " << count << " liars " << liars << " size " << size);
    const double plain = Distance(MeanOf(vectors, {}).d, wanted.d);
    CHECK(plain > 10 * spread);
    CHECK(Distance(MeanOf(vectors, With(OuterRobust::kScreen)).d, wanted.d) <= spread);
    CHECK(Distance(MeanOf(vectors, With(OuterRobust::kTrim, 3, 0.49)).d, wanted.d) <= 2 * spread);
    // f liars draw it by at most f / (R − f) radii.
    CHECK(Distance(MeanOf(vectors, With(OuterRobust::kClip, 1)).d, wanted.d) <= 3 * spread);
  }
}

TEST_CASE("Robust: token counts weigh nothing, so a false one does no harm", "[localsgd]") {
  const Codec& codec = CodecFor(DeltaCodec::kNone);
  const auto messages = Encoded(codec, Honest(3));
  for (const OuterRobust mode : EveryMode()) {
    std::vector<std::vector<float>> means;
    for (const int64_t tokens : {int64_t{100}, kMessageTokensMax}) {
      const auto mean = RoundMean::Make(
          codec, kValues, {{100, messages[0]}, {tokens, messages[1]}, {100, messages[2]}}, 100,
          With(mode));
      REQUIRE(mean.ok());
      means.emplace_back(RoundMean::kTile);
      mean->Tile(0, means.back());
    }
    CHECK(SameBits(means[0], means[1]));
  }
}

TEST_CASE("Robust: a replica whose message was screened keeps the others' base and the law",
          "[localsgd]") {
  OuterConfig config = Outer(0.7f, 0.5f, DeltaCodec::kInt8,
                             GENERATE(ResidualPlace::kBuffer, ResidualPlace::kWeights));
  config.robust = GENERATE(OuterRobust::kScreen, OuterRobust::kClip, OuterRobust::kTrim);
  auto stage = Stage(4, config, RandomVector(kValues, 1, 0.1));
  std::vector<std::vector<double>> moved(4, std::vector<double>(kValues, 0.0));
  std::vector<std::vector<double>> taken = moved;
  for (uint64_t round = 1; round <= 4; ++round) {
    for (size_t c = 0; c < 4; ++c) {
      const auto update = RandomVector(kValues, 10 * round + c, c == 2 ? 1.0 : 0.01);
      for (size_t i = 0; i < kValues; ++i) {
        const float before = stage[c].theta[i];
        stage[c].theta[i] += update[i];
        moved[c][i] += double{stage[c].theta[i]} - before;
      }
    }
    EncodeAll(&stage);
    for (size_t c = 0; c < 4; ++c) {
      std::vector<float> sent(kValues);
      REQUIRE(CodecFor(config.codec).Decode(stage[c].message, sent).ok());
      for (size_t i = 0; i < kValues; ++i) taken[c][i] += sent[i];
    }
    ApplyAll(&stage, {3, 2, 0, 1});
    for (const Worker& worker : stage) {
      CHECK(worker.replica.BaseDigest() == stage[0].replica.BaseDigest());
      CHECK(worker.replica.screened() == std::vector<bool>{false, true, false, false});
    }
  }
  for (size_t c = 0; c < 4; ++c) {
    const auto e = ResidualOf(stage[c].replica);
    double worst = 0;
    for (size_t i = 0; i < kValues; ++i) {
      const double kept = double{stage[c].replica.base()[i]} - stage[c].theta[i] + e[i];
      worst = std::max(worst, std::abs(taken[c][i] + kept + moved[c][i]));
    }
    CHECK(worst < 1e-5);
  }
}

}  // namespace skerry
