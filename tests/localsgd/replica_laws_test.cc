// The laws of outer rounds, each with real replicas that exchange real messages.
#include <algorithm>

#include "tests/localsgd/stage_of_replicas.h"

namespace skerry {
namespace {

const ResidualPlace kPlaces[] = {ResidualPlace::kBuffer, ResidualPlace::kWeights};

// Least squares on a shard of a replica: ½·mean over its samples of (a·w − b)².
struct Shard {
  std::vector<std::vector<double>> inputs;
  std::vector<double> targets;

  Shard(size_t samples, size_t n, uint64_t seed) {
    Rng rng(seed, "shard");
    for (size_t s = 0; s < samples; ++s) {
      inputs.emplace_back(n);
      for (double& a : inputs.back()) a = rng.Normal();
      targets.push_back(rng.Normal());
    }
  }

  std::vector<float> Gradient(std::span<const float> w) const {
    std::vector<double> gradient(w.size(), 0.0);
    for (size_t s = 0; s < inputs.size(); ++s) {
      double error = -targets[s];
      for (size_t i = 0; i < w.size(); ++i) error += inputs[s][i] * w[i];
      for (size_t i = 0; i < w.size(); ++i) {
        gradient[i] += error * inputs[s][i] / static_cast<double>(inputs.size());
      }
    }
    return {gradient.begin(), gradient.end()};
  }
};

void SgdStep(const Shard& shard, float rate, std::vector<float>* w) {
  const auto gradient = shard.Gradient(*w);
  for (size_t i = 0; i < w->size(); ++i) (*w)[i] -= rate * gradient[i];
}

// A stand-in for a few inner steps: any displacement.
void Wander(std::vector<float>* theta, Rng* rng, double scale,
            std::vector<double>* total = nullptr) {
  for (size_t i = 0; i < theta->size(); ++i) {
    const float before = (*theta)[i];
    (*theta)[i] += static_cast<float>(scale * rng->Normal());
    if (total != nullptr) (*total)[i] -= static_cast<double>((*theta)[i]) - before;
  }
}

TEST_CASE("Law 1: one SGD step a round, plainly averaged, is synchronous data parallelism",
          "[localsgd]") {
  const auto place = GENERATE(ResidualPlace::kBuffer, ResidualPlace::kWeights);
  constexpr size_t kSize = 20, kWorkers = 3;
  constexpr float kRate = 0.05f;
  std::vector<Shard> shards;
  for (uint64_t r = 0; r < kWorkers; ++r) shards.emplace_back(30, kSize, r);
  auto reference = RandomVector(kSize, 5);
  auto stage = Stage(kWorkers, PlainMean(place), reference);
  for (int round = 0; round < 60; ++round) {
    std::vector<double> mean(kSize, 0.0);
    for (const Shard& shard : shards) {
      const auto g = shard.Gradient(reference);
      for (size_t i = 0; i < kSize; ++i) mean[i] += g[i] / double{kWorkers};
    }
    for (size_t i = 0; i < kSize; ++i) reference[i] -= static_cast<float>(kRate * mean[i]);
    for (size_t r = 0; r < kWorkers; ++r) SgdStep(shards[r], kRate, &stage[r].theta);
    EncodeAll(&stage);
    ApplyAll(&stage, Everyone(kWorkers));
  }
  double norm = 0;
  for (const float w : reference) norm = std::max(norm, std::fabs(double{w}));
  for (const Worker& worker : stage) {
    CHECK(MaxDifference(worker.replica.base(), reference) <= 1e-6 * norm);
    CHECK(MaxDifference(worker.theta, reference) <= 1e-6 * norm);
  }
}

TEST_CASE("Law 2: replicas with identical data are one worker", "[localsgd]") {
  const auto place = GENERATE(ResidualPlace::kBuffer, ResidualPlace::kWeights);
  const size_t workers = GENERATE(2u, 3u, 7u);
  const Shard shard(20, 12, 9);
  const auto start = RandomVector(12, 6);
  const OuterConfig config = Outer(0.7f, 0.9f, DeltaCodec::kInt8, place);
  auto many = Stage(workers, config, start);
  auto one = Stage(1, config, start);
  for (int round = 0; round < 20; ++round) {
    for (Worker& worker : many) SgdStep(shard, 0.05f, &worker.theta);
    SgdStep(shard, 0.05f, &one[0].theta);
    EncodeAll(&many);
    EncodeAll(&one);
    ApplyAll(&many, Everyone(workers));
    ApplyAll(&one, {0});
  }
  for (const Worker& worker : many) {
    CHECK(SameBits(worker.replica.base(), one[0].replica.base()));
    CHECK(SameBits(worker.theta, one[0].theta));
  }
}

TEST_CASE("Law 3: alpha 1, beta 0 is Local-SGD, the base becomes the mean of the weights",
          "[localsgd]") {
  const auto place = GENERATE(ResidualPlace::kBuffer, ResidualPlace::kWeights);
  constexpr size_t kSize = 400, kWorkers = 4;
  auto stage = Stage(kWorkers, PlainMean(place), RandomVector(kSize, 1));
  Rng rng(3, "local sgd");
  for (int round = 0; round < 5; ++round) {
    std::vector<double> mean(kSize, 0.0);
    for (Worker& worker : stage) {
      Wander(&worker.theta, &rng, 0.1);
      for (size_t i = 0; i < kSize; ++i) mean[i] += worker.theta[i] / double{kWorkers};
    }
    const std::vector<float> want(mean.begin(), mean.end());
    EncodeAll(&stage);
    ApplyAll(&stage, Everyone(kWorkers));
    for (const Worker& worker : stage) {
      REQUIRE(MaxDifference(worker.replica.base(), want) < 2e-6);
      REQUIRE(MaxDifference(worker.theta, want) < 2e-6);
    }
  }
}

// What one replica has been given credit for, in double.
struct Account {
  std::vector<double> accepted;  // Σ D(msg)
  std::vector<double> inner;     // −Σ inner updates
};

void CheckConservation(const Worker& worker, const Account& account) {
  const auto e = ResidualOf(worker.replica);
  double worst = 0;
  for (size_t i = 0; i < worker.theta.size(); ++i) {
    const double kept = e[i] + (double{worker.replica.base()[i]} - worker.theta[i]);
    worst = std::max(worst, std::fabs(account.accepted[i] + kept - account.inner[i]));
  }
  REQUIRE(worst < 3e-5);
}

TEST_CASE("Law 4: under any schedule of acceptance no progress is lost or counted twice",
          "[localsgd]") {
  constexpr size_t kSize = 300, kWorkers = 3;
  const auto place = GENERATE(ResidualPlace::kBuffer, ResidualPlace::kWeights);
  const auto codec = GENERATE(from_range(EveryCodec()));
  const uint64_t seed = GENERATE(1, 2, 3, 4);
  Rng rng(seed, "schedule");
  auto stage = Stage(kWorkers, Outer(0.7f, 0.6f, codec, place), RandomVector(kSize, seed));
  const std::vector<double> zeros(kSize, 0.0);
  std::vector<Account> accounts(kWorkers, Account{zeros, zeros});
  for (int round = 0; round < 40; ++round) {
    for (size_t c = 0; c < kWorkers; ++c) Wander(&stage[c].theta, &rng, 0.01, &accounts[c].inner);
    EncodeAll(&stage);
    // Training in flight, then the commit of whoever was lucky.
    for (size_t c = 0; c < kWorkers; ++c) Wander(&stage[c].theta, &rng, 0.003, &accounts[c].inner);
    std::vector<size_t> accepted;
    for (size_t c = 0; c < kWorkers; ++c) {
      if (rng.Below(3) > 0) accepted.push_back(c);
    }
    if (accepted.empty()) accepted.push_back(rng.Below(kWorkers));
    for (const size_t c : accepted) {
      std::vector<float> decoded(kSize);
      const OuterReplica& replica = stage[c].replica;
      const auto of = replica.codecs().Of(replica.version());
      REQUIRE(of->Decode(stage[c].message, decoded).ok());
      for (size_t i = 0; i < kSize; ++i) accounts[c].accepted[i] += decoded[i];
    }
    ApplyAll(&stage, accepted);
    for (size_t c = 0; c < kWorkers; ++c) CheckConservation(stage[c], accounts[c]);
  }
}

TEST_CASE("Law 4: of the largest deltas there are nothing is lost either", "[localsgd]") {
  const auto codec = GENERATE(from_range(EveryCodec()));
  constexpr size_t kSize = 4096;
  auto stage = Stage(1, PlainMean(ResidualPlace::kBuffer, codec), std::vector<float>(kSize, 0.0f));
  Worker& worker = stage[0];
  Rng rng(3, "largest");
  // Of a matrix of one sign, its diagonal left out, low rank sends the diagonal with the wrong
  // sign.
  const bool is_low_rank = codec == DeltaCodec::kLowRank;
  for (float& value : worker.theta) {
    value = is_low_rank ? 500.0f : rng.Below(2) == 0 ? -2030.0f : 2030.0f;
  }
  for (size_t i = 0; i < kSize; i += 65) worker.theta[i] = -2030.0f;
  const std::vector<float> learnt = worker.theta;
  CAPTURE(static_cast<int>(codec));
  EncodeAll(&stage);
  const auto e = ResidualOf(worker.replica);
  double worst = 0;
  for (size_t i = 0; i < kSize; ++i) {
    worst = std::max(worst, std::fabs(double{e[i]} - worker.theta[i] + learnt[i]));
  }
  CHECK(worst < 1e-3);
}

TEST_CASE("Law 4: without compression buffer and weights give one trajectory", "[localsgd]") {
  const auto start = RandomVector(500, 4);
  const auto run = [&](ResidualPlace place) {
    auto stage = Stage(2, Outer(0.7f, 0.9f, DeltaCodec::kNone, place), start);
    Rng rng(8, "trajectory");
    for (int round = 0; round < 20; ++round) {
      for (Worker& worker : stage) Wander(&worker.theta, &rng, 0.01);
      EncodeAll(&stage);
      for (Worker& worker : stage) Wander(&worker.theta, &rng, 0.003);
      ApplyAll(&stage, {0, 1});
    }
    return std::vector<float>(stage[0].replica.base().begin(), stage[0].replica.base().end());
  };
  CHECK(MaxDifference(run(ResidualPlace::kBuffer), run(ResidualPlace::kWeights)) < 2e-5);
}

TEST_CASE("Law 6: without compression the residual is below half a quantum", "[localsgd]") {
  auto stage = Stage(2, Outer(0.7f, 0.6f, DeltaCodec::kNone, ResidualPlace::kBuffer),
                     RandomVector(300, 2, 1e-6));
  Rng rng(1, "identity");
  for (int round = 0; round < 20; ++round) {
    for (Worker& worker : stage) Wander(&worker.theta, &rng, 1e-7);
    EncodeAll(&stage);
    ApplyAll(&stage, {0, 1});
    for (const Worker& worker : stage) {
      for (const float e : ResidualOf(worker.replica)) REQUIRE(std::fabs(e) <= 0x1p-41f);
    }
  }
}

TEST_CASE("Law 6: the int8 residual stays below 1/126 of the largest delta", "[localsgd]") {
  auto stage =
      Stage(2, Outer(0.7f, 0.6f, DeltaCodec::kInt8, ResidualPlace::kBuffer), RandomVector(1000, 2));
  Rng rng(1, "residual");
  double largest = 0;
  bool kept_something = false;
  for (int round = 0; round < 100; ++round) {
    for (Worker& worker : stage) {
      Wander(&worker.theta, &rng, 0.01);
      largest = std::max(largest, MaxDifference(worker.replica.base(), worker.theta));
    }
    EncodeAll(&stage);
    ApplyAll(&stage, {0, 1});
    for (const float e : ResidualOf(stage[0].replica)) {
      REQUIRE(std::fabs(e) <= largest / 126);
      kept_something = kept_something || e != 0;
    }
  }
  CHECK(kept_something);
}

TEST_CASE("Law 7: all replicas hold the same base bits, each seeing the set in its own order",
          "[localsgd]") {
  const auto place = GENERATE(ResidualPlace::kBuffer, ResidualPlace::kWeights);
  const auto codec = GENERATE(from_range(EveryCodec()));
  constexpr size_t kWorkers = 5;
  // More than a tile, and not a multiple of a block; the clip adds norms over the whole stage.
  const OuterReplicaOptions options = {.nominal_tokens = 900, .clip_ratio = 0.02f};
  auto stage = Stage(kWorkers, Outer(0.7f, 0.9f, codec, place), RandomVector(2500, 7), options);
  Rng rng(2, "orders");
  for (int round = 0; round < 8; ++round) {
    for (Worker& worker : stage) Wander(&worker.theta, &rng, 0.05);
    EncodeAll(&stage);
    std::vector<size_t> accepted = Everyone(kWorkers);
    if (round % 3 == 2) accepted.erase(accepted.begin() + round % 5);
    for (size_t self = 0; self < kWorkers; ++self) {
      for (size_t i = accepted.size(); i > 1; --i)
        std::swap(accepted[i - 1], accepted[rng.Below(i)]);
      const auto commit = CommitFor(stage, self, accepted);
      REQUIRE(stage[self].replica.Apply(commit, stage[self].theta).ok());
    }
    for (const Worker& worker : stage) {
      REQUIRE(worker.replica.version() == round + 1);
      REQUIRE(worker.replica.BaseDigest() == stage[0].replica.BaseDigest());
    }
  }
}

TEST_CASE("Law 12: weights hold a lost message as if it had never been sent", "[localsgd]") {
  const auto codec = GENERATE(from_range(EveryCodec()));
  const OuterConfig config = Outer(0.7f, 0.6f, codec, ResidualPlace::kWeights);
  auto stage = Stage(2, config, RandomVector(700, 3));
  Rng rng(5, "lost");
  for (Worker& worker : stage) Wander(&worker.theta, &rng, 0.02);
  Worker silent = stage[0];
  EncodeAll(&stage);
  ApplyAll(&stage, {1});

  REQUIRE(silent.replica.Apply(CommitFor(stage, 0, {1}), silent.theta).ok());

  CHECK(SameBits(stage[0].theta, silent.theta));
  CHECK(SameBits(stage[0].replica.base(), silent.replica.base()));
  // And the next message carries both rounds.
  CHECK(**stage[0].replica.Encode(stage[0].theta) == **silent.replica.Encode(silent.theta));
}

TEST_CASE("Law 12: averaged over who is missing, the step is the full step", "[localsgd]") {
  constexpr size_t kSize = 200, kWorkers = 4;
  const auto start = RandomVector(kSize, 3);
  auto sent = Stage(kWorkers, PlainMean(ResidualPlace::kBuffer), start);
  Rng rng(6, "masks");
  for (Worker& worker : sent) Wander(&worker.theta, &rng, 0.1);
  EncodeAll(&sent);
  const auto step = [&](const std::vector<size_t>& accepted) {
    auto stage = sent;
    ApplyAll(&stage, accepted);
    return std::vector<float>(stage[0].replica.base().begin(), stage[0].replica.base().end());
  };
  std::vector<double> mean(kSize, 0.0);
  for (size_t missing = 0; missing < kWorkers; ++missing) {
    auto accepted = Everyone(kWorkers);
    accepted.erase(accepted.begin() + static_cast<std::ptrdiff_t>(missing));
    const auto base = step(accepted);
    for (size_t i = 0; i < kSize; ++i) mean[i] += base[i] / double{kWorkers};
  }
  const std::vector<float> want(mean.begin(), mean.end());
  CHECK(MaxDifference(step(Everyone(kWorkers)), want) < 1e-6);
}

TEST_CASE("Law 15: who begins at a version goes on as those who were there, bit for bit",
          "[localsgd]") {
  const auto place = GENERATE(ResidualPlace::kBuffer, ResidualPlace::kWeights);
  const float momentum = GENERATE(0.0f, 0.6f);
  const OuterConfig config = Outer(0.7f, momentum, DeltaCodec::kNone, place);
  const OuterReplicaOptions options = {.clip_ratio = 0.03f};
  auto stage = Stage(2, config, RandomVector(1500, 1), options);
  const auto round = [](std::vector<Worker>* all, uint64_t seed) {
    Rng rng(seed, "beginning");
    for (Worker& worker : *all) Wander(&worker.theta, &rng, 0.01);
    EncodeAll(all);
    ApplyAll(all, {0, 1});
  };
  for (uint64_t i = 0; i < 3; ++i) round(&stage, i);

  auto twin = stage;
  const OuterReplica& donor = stage[1].replica;
  twin[0].theta.assign(donor.base().begin(), donor.base().end());
  std::vector<float> m(donor.momentum().begin(), donor.momentum().end());
  m.resize(twin[0].theta.size());  // as it travels: zeros where there is none
  twin[0].replica = OuterReplica::At(config, donor.version(), twin[0].theta, m, options);
  CHECK((StateOf(twin[0].replica) == StateOf(stage[0].replica)));
  for (uint64_t i = 3; i < 6; ++i) {
    round(&stage, i);
    round(&twin, i);
  }
  CHECK((StateOf(twin[0].replica) == StateOf(stage[0].replica)));
  CHECK(SameBits(twin[0].theta, stage[0].theta));
}

TEST_CASE("Outer rounds descend: a quadratic far from its minimum gets there", "[localsgd]") {
  // The coarse codecs take more rounds, top-k with a buffer a smaller momentum: not a law.
  for (const auto place : kPlaces) {
    for (const auto codec :
         {DeltaCodec::kNone, DeltaCodec::kInt8, DeltaCodec::kBf16, DeltaCodec::kInt4}) {
      const auto target = RandomVector(600, 11);
      auto stage = Stage(3, Outer(0.7f, 0.6f, codec, place), std::vector<float>(600, 0.0f));
      for (int round = 0; round < 60; ++round) {
        for (Worker& worker : stage) {
          for (size_t i = 0; i < 600; ++i) worker.theta[i] -= 0.4f * (worker.theta[i] - target[i]);
        }
        EncodeAll(&stage);
        ApplyAll(&stage, Everyone(3));
      }
      CHECK(MaxDifference(stage[0].replica.base(), target) < 1e-4);
    }
  }
}

}  // namespace
}  // namespace skerry
