// The mean of a round: what tokens mean, and that order does not matter.
#include "localsgd/round_mean.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "tests/localsgd/stage_of_replicas.h"

namespace skerry {
namespace {

Bytes Encoded(const Codec& codec, const std::vector<float>& u) {
  Bytes out;
  REQUIRE(codec.Encode(u, &out).ok());
  return out;
}

std::vector<float> MeanOf(const Codec& codec, int64_t n, const std::vector<RoundMessage>& messages,
                          int64_t nominal) {
  const auto mean = RoundMean::Make(codec, n, messages, nominal);
  REQUIRE(mean.ok());
  std::vector<float> d(static_cast<size_t>(n));
  for (size_t first = 0; first < d.size(); first += RoundMean::kTile) {
    const size_t count = std::min<size_t>(RoundMean::kTile, d.size() - first);
    mean->Tile(static_cast<int64_t>(first), std::span(d).subspan(first, count));
  }
  return d;
}

TEST_CASE("RoundMean: equal tokens give the plain mean", "[localsgd]") {
  const Codec& codec = CodecFor(DeltaCodec::kNone);
  const Bytes a = Encoded(codec, {1.0f, 2.0f}), b = Encoded(codec, {3.0f, -4.0f});
  for (const int64_t nominal : {0, 100}) {
    CHECK(MeanOf(codec, 2, {{100, a}, {100, b}}, nominal) == std::vector{2.0f, -1.0f});
  }
}

TEST_CASE("RoundMean: a message that carries two rounds counts as two", "[localsgd]") {
  // Three rounds' worth of work moved by 3 in total: 1 for each nominal round.
  const Codec& codec = CodecFor(DeltaCodec::kNone);
  const Bytes carried = Encoded(codec, {2.0f}), single = Encoded(codec, {1.0f});
  CHECK(MeanOf(codec, 1, {{200, carried}, {100, single}}, 100) == std::vector{1.0f});
}

TEST_CASE("RoundMean: after an absence the mean is that of rounds", "[localsgd]") {
  // Four rounds' worth of moves, three by one who was absent twice: 2 for each round and weight.
  const Codec& codec = CodecFor(DeltaCodec::kNone);
  const Bytes carried = Encoded(codec, {6.0f}), single = Encoded(codec, {2.0f});
  CHECK(MeanOf(codec, 1, {{100, carried, 3}, {100, single}}, 0) == std::vector{2.0f});
  // Its tokens of a round weigh as ever: (3·6 + 1·2) / (3·3 + 1).
  CHECK(MeanOf(codec, 1, {{300, carried, 3}, {100, single}}, 0) == std::vector{2.0f});
  CHECK_FALSE(RoundMean::Make(codec, 1, {{100, carried, 0}}, 0).ok());
}

TEST_CASE("RoundMean: tokens weigh displacements of equally many steps", "[localsgd]") {
  const Codec& codec = CodecFor(DeltaCodec::kNone);
  const Bytes a = Encoded(codec, {4.0f}), b = Encoded(codec, {8.0f});
  CHECK(MeanOf(codec, 1, {{300, a}, {100, b}}, 0) == std::vector{5.0f});
  CHECK(MeanOf(codec, 1, {{100, b}, {300, a}}, 0) == std::vector{5.0f});
}

TEST_CASE("TokenWeights: exact where they can be, near elsewhere, never too much", "[localsgd]") {
  const auto weights = [](const std::vector<int64_t>& tokens) {
    std::vector<RoundMessage> messages;
    for (const int64_t n : tokens) messages.push_back({n, {}});
    return TokenWeights(messages);
  };
  using Weights = std::vector<int64_t>;
  CHECK(weights({4096, 4096, 4096}) == Weights{1, 1, 1});
  CHECK(weights({6 * 1024, 9 * 1024}) == Weights{2, 3});
  CHECK(weights({0, 0}) == Weights{1, 1});
  CHECK(weights({0, 512}) == Weights{0, 1});
  CHECK(weights({1, kMessageTokensMax}) == Weights{1, kWeightTotalMax / 2});
  const std::vector<int64_t> odd = {1009, 2003, 1511, 0};
  const Weights near = weights(odd);
  for (size_t i = 0; i < odd.size(); ++i) {
    CHECK(static_cast<double>(near[i]) / static_cast<double>(near[1]) ==
          Approx(static_cast<double>(odd[i]) / 2003).margin(0.5 / 256));
  }
  const std::vector<int64_t> many(kRoundMessagesMax, kMessageTokensMax);
  CHECK(weights(many) == Weights(kRoundMessagesMax, 1));
  Weights uneven = many;
  uneven[0] = 1;
  const Weights bounded = weights(uneven);
  CHECK(std::accumulate(bounded.begin(), bounded.end(), int64_t{0}) <= kWeightTotalMax);
}

TEST_CASE("RoundMean: the mean of equal messages is the message", "[localsgd]") {
  const Codec& codec = CodecFor(GENERATE(from_range(EveryShapelessCodec())));
  const Bytes message = Encoded(codec, RandomVector(3000, 2, 0.01));
  std::vector<float> decoded(3000);
  REQUIRE(codec.Decode(message, decoded).ok());
  for (size_t count = 1; count <= 12; ++count) {
    const std::vector<RoundMessage> messages(count, RoundMessage{7, message});
    CHECK(MeanOf(codec, 3000, messages, 0) == decoded);
  }
}

TEST_CASE("RoundMean: any order of the messages gives the same bits", "[localsgd]") {
  const Codec& codec = CodecFor(GENERATE(from_range(EveryShapelessCodec())));
  const int64_t nominal = GENERATE(0, 64);
  std::vector<Bytes> payloads;
  for (uint64_t r = 0; r < 5; ++r) payloads.push_back(Encoded(codec, RandomVector(1500, r, 0.1)));
  std::vector<size_t> order = {0, 1, 2, 3, 4};
  std::vector<float> first;
  do {
    std::vector<RoundMessage> messages;
    for (const size_t r : order) messages.push_back({static_cast<int64_t>(100 + r), payloads[r]});
    const auto d = MeanOf(codec, 1500, messages, nominal);
    if (first.empty()) first = d;
    REQUIRE(SameBits(d, first));
  } while (std::next_permutation(order.begin(), order.end()));
}

// Sums are of units, so it does not matter who adds first: three at home and two abroad, or one by
// one.
TEST_CASE("Law 8: a sum put together from any partition of the messages has the same bits",
          "[localsgd]") {
  constexpr size_t kSize = 1000, kMessages = 7;
  for (const DeltaCodec kind : EveryShapelessCodec()) {
    INFO("codec " << static_cast<int>(kind));
    const Codec& codec = CodecFor(kind);
    std::vector<Bytes> messages;
    std::vector<int64_t> whole(kSize, 0);
    for (size_t c = 0; c < kMessages; ++c) {
      messages.push_back(Encoded(codec, RandomVector(kSize, c, c % 2 == 0 ? 1.0 : 1e-3)));
      REQUIRE(codec.DecodeAccumulate(messages[c], static_cast<int64_t>(c + 1), whole).ok());
    }
    Rng rng(3, "partitions");
    for (int partition = 0; partition < 8; ++partition) {
      std::vector<std::vector<int64_t>> parts(3, std::vector<int64_t>(kSize, 0));
      for (size_t c = kMessages; c-- > 0;) {
        std::vector<int64_t>& part = parts[rng.Below(3)];
        REQUIRE(codec.DecodeAccumulate(messages[c], static_cast<int64_t>(c + 1), part).ok());
      }
      std::vector<int64_t> sum(kSize, 0);
      for (const auto& part : parts) {
        for (size_t i = 0; i < kSize; ++i) sum[i] += part[i];
      }
      CHECK(sum == whole);
    }
  }
}

TEST_CASE("RoundMean: a replica that no path led to takes part, but never alone", "[localsgd]") {
  const Codec& codec = CodecFor(DeltaCodec::kNone);
  const Bytes idle = Encoded(codec, {0.0f}), busy = Encoded(codec, {3.0f});
  CHECK(MeanOf(codec, 1, {{0, idle}, {100, busy}}, 0) == std::vector{3.0f});
  CHECK(MeanOf(codec, 1, {{0, idle}, {100, busy}}, 100) == std::vector{3.0f});
  CHECK(MeanOf(codec, 1, {{0, idle}, {0, idle}}, 0) == std::vector{0.0f});
  CHECK(!RoundMean::Make(codec, 1, {{0, idle}}, 100).ok());
}

TEST_CASE("RoundMean: an error names the participant", "[localsgd][error]") {
  const Codec& codec = CodecFor(DeltaCodec::kInt8);
  const Bytes good = Encoded(codec, {1.0f});
  const Bytes bad = {200, 1};
  const auto error = [&](const std::vector<RoundMessage>& messages) {
    const auto mean = RoundMean::Make(codec, 1, messages, 0);
    REQUIRE(absl::IsInvalidArgument(mean.status()));
    return std::string(mean.status().message());
  };
  CHECK(error({{1, good}, {1, good}, {1, bad}}).find("participant 2") == 0);
  CHECK(error({{1, good}, {-1, good}}).find("participant 1") == 0);
  CHECK(error({{kMessageTokensMax + 1, good}}).find("participant 0") == 0);
  error({});
  error(std::vector<RoundMessage>(kRoundMessagesMax + 1, RoundMessage{1, good}));
}

}  // namespace
}  // namespace skerry
