// Replicas of one stage in a test: real OuterReplicas that exchange real messages.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "common/rng.h"
#include "localsgd/replica.h"

namespace skerry {

inline std::vector<DeltaCodec> CodecsUpTo(DeltaCodec last) {
  std::vector<DeltaCodec> all;
  for (int i = 0; i <= static_cast<int>(last); ++i) all.push_back(static_cast<DeltaCodec>(i));
  return all;
}
inline std::vector<DeltaCodec> EveryCodec() {
  return CodecsUpTo(DeltaCodec::kLast);
}
inline std::vector<DeltaCodec> EveryShapelessCodec() {
  return CodecsUpTo(kLastShapeless);
}

inline OuterConfig Outer(float learning_rate, float momentum, DeltaCodec codec,
                         ResidualPlace residual) {
  OuterConfig config;
  config.learning_rate = learning_rate;
  config.momentum = momentum;
  config.codec = codec;
  config.residual = residual;
  return config;
}

// α = 1, β = 0: the base becomes the mean of the replicas.
inline OuterConfig PlainMean(ResidualPlace residual, DeltaCodec codec = DeltaCodec::kNone) {
  return Outer(1.0f, 0.0f, codec, residual);
}

inline std::vector<float> RandomVector(size_t n, uint64_t seed, double scale = 1) {
  Rng rng(seed, "vector");
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(scale * rng.Normal());
  return values;
}

template <typename A, typename B>
bool SameBits(const A& a, const B& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0;
}

inline double MaxDifference(std::span<const float> a, std::span<const float> b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::fabs(static_cast<double>(a[i]) - b[i]));
  }
  return worst;
}

inline std::vector<float> ResidualOf(const OuterReplica& replica) {
  std::vector<float> e(replica.base().size());
  replica.ReadResidual(e);
  return e;
}

inline std::vector<Bytes> CopiesOf(const std::vector<Payload>& payloads) {
  std::vector<Bytes> copies;
  for (const Payload& payload : payloads) copies.push_back(*payload);
  return copies;
}

// All that a replica holds of rounds, to compare.
inline auto StateOf(const OuterReplica& replica) {
  const auto copy = [](auto values) { return std::vector(values.begin(), values.end()); };
  return std::tuple(replica.version(), copy(replica.base()), copy(replica.momentum()),
                    ResidualOf(replica), replica.HasPending());
}

struct Worker {
  OuterReplica replica;
  std::vector<float> theta;
  Bytes message;

  Worker(const OuterConfig& config, const std::vector<float>& start,
         const OuterReplicaOptions& options = {})
      : replica(config, start, options), theta(start) {}
};

inline std::vector<Worker> Stage(size_t workers, const OuterConfig& config,
                                 const std::vector<float>& start,
                                 const OuterReplicaOptions& options = {}) {
  return std::vector<Worker>(workers, Worker(config, start, options));
}

inline void EncodeAll(std::vector<Worker>* stage) {
  for (Worker& worker : *stage) {
    auto message = worker.replica.Encode(worker.theta);
    REQUIRE(message.ok());
    worker.message = **message;
  }
}

// The commit as worker `self` sees it: the messages of `accepted`, in that order.
inline std::vector<OuterReplica::Accepted> CommitFor(const std::vector<Worker>& stage, size_t self,
                                                     const std::vector<size_t>& accepted) {
  std::vector<OuterReplica::Accepted> commit;
  for (const size_t c : accepted) commit.push_back({1000, stage[c].message, c == self});
  return commit;
}

inline void ApplyAll(std::vector<Worker>* stage, const std::vector<size_t>& accepted) {
  for (size_t self = 0; self < stage->size(); ++self) {
    const absl::Status status =
        (*stage)[self].replica.Apply(CommitFor(*stage, self, accepted), (*stage)[self].theta);
    INFO(std::string(status.message()));
    REQUIRE(status.ok());
  }
}

inline std::vector<size_t> Everyone(size_t workers) {
  std::vector<size_t> all(workers);
  for (size_t i = 0; i < workers; ++i) all[i] = i;
  return all;
}

}  // namespace skerry
