#include "pipeline/plan/team_memory.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_format.h"
#include "common/round_clock.h"
#include "pipeline/plan/batch_shape.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

constexpr int32_t kDevicesMax = 64;
constexpr int64_t kLogitRows = 512;  // model/head.h, kHeadChunk
constexpr const char* kTimes = " × ";

// The most sequences that one of them has.
int32_t SequencesOfEach(const RunConfig& config, int32_t devices) {
  return (config.pipeline.sequences_per_microbatch + devices - 1) / devices;
}

// The most gradients that a node of any stage holds, and the sum of them.
int32_t GradientsAtMost(RunConfig config) {
  if (config.pipeline.in_flight == 0) config.pipeline.in_flight = kWindowMax;
  return 1 + std::max(GradientsMax(config, 1, true), GradientsMax(config, 1, false));
}

// What is not split of a stage with the most of it, in arenas of its weights: those, the gradients
// that wait and their sum, and logits of a chunk of tokens.
double KeptAtMost(const RunConfig& config) {
  const double weights = config.inner.compute == InnerCompute::kBfloat16 ? 1.5 : 1;
  const int64_t rows = std::min(kLogitRows, MicrobatchTokens(config));
  const double logits = weights * static_cast<double>(rows) / std::max(1, config.model.hidden);
  return weights + GradientsAtMost(config) + logits;
}

int32_t InUse(const RunConfig& config, int32_t announced) {
  return std::clamp(announced, 1, std::max(1, config.pipeline.sequences_per_microbatch));
}

int64_t Offered(const RunConfig& config, int64_t memory_bytes, int32_t announced) {
  const int32_t devices = InUse(config, announced);
  if (devices == 1 || config.inner.optimizer == InnerOptimizer::kMuon) return memory_bytes;
  const double kept = KeptAtMost(config);
  const double moments = config.inner.optimizer == InnerOptimizer::kSgd ? 0 : 2;
  const double split = moments + (EffectiveOuter(config.outer).momentum > 0 ? 2 : 1);
  const double share = static_cast<double>(SequencesOfEach(config, devices)) /
                       config.pipeline.sequences_per_microbatch;
  const double left = (kept + share * split) / (kept + split);
  // Whatever somebody announces.
  return static_cast<int64_t>(std::min(static_cast<double>(memory_bytes) / left, 0x1p62));
}

}  // namespace

std::string TeamNumericProfile(size_t devices, const std::string& each) {
  return absl::StrFormat("%d%s%s", devices, kTimes, each);
}

int32_t AnnouncedDevices(const DeviceProfile& device) {
  const size_t at = device.numeric_profile.find(kTimes);
  if (at == 0 || at > 2 || at == std::string::npos) return 1;
  const std::string number = device.numeric_profile.substr(0, at);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!std::all_of(number.begin(), number.end(), is_digit)) return 1;
  return std::clamp(std::atoi(number.c_str()), 1, kDevicesMax);
}

int32_t DevicesInUse(const RunConfig& config, const DeviceProfile& device) {
  return InUse(config, AnnouncedDevices(device));
}

StageMemory MemoryOfEach(const RunConfig& config, int32_t layers, bool holds_ends,
                         const StageHolds& holds, int32_t devices) {
  StageMemory each = MemoryOf(config, layers, holds_ends, holds);
  if (devices <= 1) return each;
  RunConfig own = config;
  own.pipeline.sequences_per_microbatch = SequencesOfEach(config, devices);
  const StageMemory of_own = MemoryOf(own, layers, holds_ends, holds);
  if (config.inner.optimizer != InnerOptimizer::kMuon) each.optimizer /= devices;
  for (int64_t* split :
       {&each.outer, &each.codec, &each.handover, &each.checkpoint, &each.buffers}) {
    *split /= devices;
  }
  each.stash = of_own.stash;
  each.workspace = of_own.workspace;
  return each;
}

StageMemory EachOf(const RunConfig& config, const PipelinePlan& plan, int32_t stage,
                   const DeviceProfile& device) {
  const StageAssignment& assignment = plan.stages[static_cast<size_t>(stage)];
  return MemoryOfEach(config, assignment.last_layer - assignment.first_layer, stage == 0,
                      HoldsOf(config, plan, stage, OfferedFor(config, device)),
                      DevicesInUse(config, device));
}

int64_t OfferedFor(const RunConfig& config, const DeviceProfile& device) {
  return Offered(config, device.memory_bytes, AnnouncedDevices(device));
}

std::vector<int64_t> OfferedFor(const RunConfig& config, const std::vector<int64_t>& memory_bytes,
                                const std::vector<int32_t>& devices) {
  std::vector<int64_t> offered = memory_bytes;
  for (size_t i = 0; i < devices.size(); ++i)
    offered[i] = Offered(config, memory_bytes[i], devices[i]);
  return offered;
}

int64_t HeldOnAll(const RunConfig& config, const PipelinePlan& plan, int32_t stage,
                  const DeviceProfile& device) {
  return DevicesInUse(config, device) * EachOf(config, plan, stage, device).total();
}

}  // namespace skerry
