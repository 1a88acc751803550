#include "pipeline/plan/round_shape.h"

#include <algorithm>
#include <cstring>

#include "common/bytes.h"
#include "common/check.h"
#include "common/digest.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

int64_t ShareOf(const StageAssignment& stage, size_t slot) {
  return stage.shares.empty() ? 1 : int64_t{stage.shares[slot]};
}

// The slot that a piece belongs to when everybody takes part.
std::vector<size_t> HomesOf(const StageAssignment& stage, int32_t pieces) {
  int64_t total = 0;
  for (size_t slot = 0; slot < stage.replicas.size(); ++slot) total += ShareOf(stage, slot);
  std::vector<size_t> homes;
  int64_t shares = 0;
  for (size_t slot = 0; slot < stage.replicas.size(); ++slot) {
    shares += ShareOf(stage, slot);
    homes.resize(static_cast<size_t>(pieces * shares / total), slot);
  }
  return homes;
}

}  // namespace

bool IsShardedStage(const RunConfig& config, const StageAssignment& stage) {
  if (config.cluster.is_on() && config.outer.reduce == OuterReduce::kAuto)
    return !stage.shares.empty();
  return IsSharded(config.outer, static_cast<int64_t>(stage.replicas.size()));
}

RoundShape ShapeOf(const PipelinePlan& plan, int32_t stage, int64_t round) {
  RoundShape shape;
  shape.participants = ParticipantsOf(plan, stage, round);
  const auto& replicas = plan.stages[static_cast<size_t>(stage)].replicas;
  Bytes named;
  for (size_t slot = 0; slot < replicas.size(); ++slot) {
    const auto& in = shape.participants;
    if (std::find(in.begin(), in.end(), replicas[slot]) == in.end()) continue;
    named.push_back(static_cast<uint8_t>(slot));
    named.push_back(static_cast<uint8_t>(slot >> 8));
    named.insert(named.end(), replicas[slot].bytes.begin(), replicas[slot].bytes.end());
  }
  const Digest digest = DigestOf(std::span<const uint8_t>(named));
  std::memcpy(&shape.id, digest.bytes.data(), sizeof shape.id);
  shape.id = std::max<uint64_t>(shape.id, 1);
  return shape;
}

std::vector<NodeId> ReducersOf(const StageAssignment& stage, const RoundShape& shape,
                               int32_t pieces) {
  SKERRY_CHECK(!shape.participants.empty());
  std::vector<size_t> slots;  // of the participants
  for (const NodeId& node : shape.participants) {
    const auto it = std::find(stage.replicas.begin(), stage.replicas.end(), node);
    SKERRY_CHECK(it != stage.replicas.end());
    slots.push_back(static_cast<size_t>(it - stage.replicas.begin()));
  }
  std::vector<int64_t> load(stage.replicas.size(), 0);
  const std::vector<size_t> homes = HomesOf(stage, pieces);
  for (const size_t home : homes) ++load[home];
  // To whom one piece more is the least for its share; among equals the first.
  const auto lighter = [&](size_t a, size_t b) {
    return (load[a] + 1) * ShareOf(stage, b) < (load[b] + 1) * ShareOf(stage, a);
  };
  std::vector<NodeId> reducers;
  for (const size_t home : homes) {
    size_t reducer = home;
    if (std::find(slots.begin(), slots.end(), home) == slots.end()) {
      reducer = *std::min_element(slots.begin(), slots.end(), lighter);
      ++load[reducer];
    }
    reducers.push_back(stage.replicas[reducer]);
  }
  return reducers;
}

int64_t RoundTokensMax(const RunConfig& config, const PipelinePlan& plan) {
  constexpr int64_t kMost = int64_t{1} << 48;  // sums cannot overflow
  constexpr int64_t kAgain = 4;
  const double tokens =
      static_cast<double>(kAgain * std::max<int64_t>(config.outer.inner_steps, 1)) *
      plan.microbatches_per_step * config.pipeline.sequences_per_microbatch * config.model.context;
  return tokens < static_cast<double>(kMost) ? static_cast<int64_t>(tokens) : kMost;
}

}  // namespace skerry
