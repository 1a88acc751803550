#include "bench/replica_bytes.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "bench/counted_heap.h"
#include "common/check.h"
#include "common/rng.h"
#include "localsgd/replica.h"

namespace skerry {
namespace {

constexpr size_t kParameters = 2 << 20;
constexpr int kReplicas = 4, kRounds = 3;

std::vector<float> Moved(std::vector<float> theta, Rng* rng) {
  for (float& x : theta) x += 0.01f * static_cast<float>(rng->Uniform() - 0.5);
  return theta;
}

}  // namespace

ReplicaBytes MeasureReplica(DeltaCodec codec, ResidualPlace residual, float momentum) {
  OuterConfig config;
  config.momentum = momentum;
  config.codec = codec;
  config.residual = residual;
  Rng rng(7, "replica");
  std::vector<float> theta(kParameters, 0.1f);
  // The others', which the caller holds; in every round the same.
  std::vector<Payload> messages(kReplicas);
  for (int r = 1; r < kReplicas; ++r) {
    std::vector<float> moved = Moved(theta, &rng);
    messages[static_cast<size_t>(r)] = *OuterReplica(config, theta).Encode(moved);
  }
  std::vector<float> base = theta;
  ReplicaBytes bytes;
  const int64_t before = HeapBytes() - static_cast<int64_t>(kParameters * sizeof(float));
  const auto per_parameter = [&](int64_t heap) {
    return static_cast<double>(heap - before) / static_cast<double>(kParameters);
  };
  OuterReplica measured(config, std::move(base));
  bytes.fresh = per_parameter(HeapBytes());
  for (int round = 0; round < kRounds; ++round) {
    theta = Moved(std::move(theta), &rng);
    ResetHeapPeak();
    messages[0] = *measured.Encode(theta);
    bytes.pending = per_parameter(HeapBytes());
    {
      std::vector<OuterReplica::Accepted> commit;
      for (const Payload& message : messages) commit.push_back({1, View(message), commit.empty()});
      const absl::Status applied = measured.Apply(commit, theta);
      SKERRY_CHECK(applied.ok(), "a round of our own making");
    }
    bytes.most = std::max(bytes.most, per_parameter(HeapBytesPeak()));
    messages[0] = {};
    bytes.between = per_parameter(HeapBytes());
  }
  return bytes;
}

}  // namespace skerry
