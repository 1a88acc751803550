#include "pipeline/plan/node_memory.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_format.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

constexpr int32_t kDevicesMax = 64;
constexpr const char* kTimes = " × ";
constexpr int64_t kDeltaPiece = int64_t{4} << 20;    // compression/device_codecs.h
constexpr int64_t kOffloadPiece = int64_t{1} << 20;  // model/host_optimizer.h

int32_t InUse(const RunConfig& config, int32_t announced) {
  return std::clamp(announced, 1, std::max(1, config.pipeline.sequences_per_microbatch));
}

// As MemoryOf, with what each of so many devices has of its own sequences and parameters.
StageMemory SharedOut(const RunConfig& config, int32_t layers, bool holds_ends,
                      const StageHolds& holds, int32_t devices) {
  StageMemory each = MemoryOf(config, layers, holds_ends, holds);
  if (devices <= 1) return each;
  RunConfig own = config;
  int32_t& sequences = own.pipeline.sequences_per_microbatch;
  sequences = (sequences + devices - 1) / devices;
  const StageMemory of_own = MemoryOf(own, layers, holds_ends, holds);
  each.stash = of_own.stash;
  each.workspace = of_own.workspace;
  if (config.inner.optimizer != InnerOptimizer::kMuon) each.optimizer /= devices;
  return each;
}

bool MayOffload(const RunConfig& config, const MemoryOffer& offer) {
  return offer.HasHost() && config.pipeline.offload != Offload::kNever &&
         config.inner.optimizer == InnerOptimizer::kAdamW;
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

MemoryOffer OfferOf(const DeviceProfile& device) {
  return {device.memory_bytes, device.host_bytes, AnnouncedDevices(device)};
}

int64_t MemoryOffer::total() const {
  constexpr int64_t kMost = INT64_MAX / (2 * kDevicesMax);  // whatever somebody announces
  return devices * std::min(device_bytes, kMost) + std::min(host_bytes, kMost);
}

bool NodeMemory::FitsIn(const MemoryOffer& offer) const {
  const bool on_device = offer.device_bytes == 0 || each.needed() <= offer.device_bytes;
  return on_device && host.needed() <= offer.host_bytes;
}

NodeMemory MemoryIn(const RunConfig& config, int32_t layers, bool holds_ends,
                    const StageHolds& holds, const MemoryOffer& offer) {
  NodeMemory memory;
  memory.devices = InUse(config, offer.devices);
  StageMemory& each = memory.each;
  StageMemory& host = memory.host;
  each = SharedOut(config, layers, holds_ends, holds, memory.devices);
  for (int64_t StageMemory::*part :
       {&StageMemory::outer, &StageMemory::codec, &StageMemory::sums, &StageMemory::handover,
        &StageMemory::checkpoint, &StageMemory::buffers}) {
    if (offer.HasHost()) {
      host.*part = std::exchange(each.*part, 0);
    } else {
      each.*part /= memory.devices;
    }
  }
  if (!offer.HasHost()) return memory;
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  const int64_t parameters = StageParameters(config.model, layers, holds_ends);
  host.weights = parameters * kFloat;
  if (holds.replicas > 1 && config.outer.codec <= kLastShapeless) {
    // Deltas pass through the device: base, weights and residual of a piece, and its message; the
    // residual is widened on the way.
    const int64_t piece = std::min(kDeltaPiece, parameters);
    const double message = static_cast<double>(piece) * DeltaBitsPerValue(config.outer.codec) / 8;
    each.codec = 3 * piece * kFloat + static_cast<int64_t>(message);
    if (config.outer.residual == ResidualPlace::kBuffer) host.codec += piece * kFloat;
  }
  if (holds.offloads) {
    each.optimizer = 0;
    const int64_t piece = std::min(kOffloadPiece, parameters / memory.devices);
    host.optimizer =
        MemoryOf(config, layers, holds_ends, holds).optimizer + 4 * memory.devices * piece * kFloat;
  }
  return memory;
}

StageHolds FittedHolds(const RunConfig& config, int32_t layers, bool holds_ends,
                       const StageHolds& holds, const MemoryOffer& offer) {
  const auto fits = [&](const StageHolds& tried) {
    return MemoryIn(config, layers, holds_ends, tried, offer).FitsIn(offer);
  };
  StageHolds fitted = holds;
  for (const StageHolds& least : LeastHolds(config, layers, holds, offer)) {
    fitted = least;
    if (config.pipeline.recompute == Recompute::kAuto) fitted.recomputed = 0;
    if (offer.IsUnlimited()) break;
    while (fitted.recomputed < least.recomputed && !fits(fitted)) ++fitted.recomputed;
    if (fits(fitted)) break;
  }
  return fitted;
}

std::vector<StageHolds> LeastHolds(const RunConfig& config, int32_t layers, const StageHolds& holds,
                                   const MemoryOffer& offer) {
  StageHolds least = holds;
  least.recomputed = config.pipeline.recompute == Recompute::kNever ? 0 : layers;
  least.offloads = false;
  std::vector<StageHolds> ways = {least};
  if (!MayOffload(config, offer)) return ways;
  least.offloads = true;
  if (config.pipeline.offload == Offload::kAlways) return {least};
  ways.push_back(least);
  return ways;
}

bool CanHold(const RunConfig& config, int32_t layers, bool holds_ends, const StageHolds& holds,
             const MemoryOffer& offer) {
  const std::vector<StageHolds> ways = LeastHolds(config, layers, holds, offer);
  return std::any_of(ways.begin(), ways.end(), [&](const StageHolds& least) {
    return MemoryIn(config, layers, holds_ends, least, offer).FitsIn(offer);
  });
}

StageHolds HoldsOf(const RunConfig& config, const PipelinePlan& plan, int32_t stage,
                   const MemoryOffer& offer) {
  const StageAssignment& assignment = plan.stages[static_cast<size_t>(stage)];
  const bool ends = stage == 0;
  const auto replicas = static_cast<int32_t>(assignment.replicas.size());
  const int32_t layers = assignment.last_layer - assignment.first_layer;
  StageHolds holds =
      HoldsOf(config, static_cast<int32_t>(plan.stages[0].replicas.size()), replicas, ends);
  holds = FittedHolds(config, layers, ends, holds, offer);
  const int32_t most = GradientsMax(config, replicas, ends);
  while (holds.gradients < most) {
    StageHolds more = holds;
    ++more.gradients;
    const bool fits =
        offer.IsUnlimited() || MemoryIn(config, layers, ends, more, offer).FitsIn(offer);
    if (!fits) break;
    holds = more;
  }
  return holds;
}

NodeMemory MemoryIn(const RunConfig& config, const PipelinePlan& plan, int32_t stage,
                    const MemoryOffer& offer) {
  const StageAssignment& assignment = plan.stages[static_cast<size_t>(stage)];
  return MemoryIn(config, assignment.last_layer - assignment.first_layer, stage == 0,
                  HoldsOf(config, plan, stage, offer), offer);
}

std::vector<MemoryOffer> LeastOffers(std::span<const MemoryOffer> offers) {
  std::vector<MemoryOffer> least;
  for (const MemoryOffer& offer : offers) {
    const auto kind = std::find_if(least.begin(), least.end(), [&](const MemoryOffer& other) {
      return other.devices == offer.devices && other.HasHost() == offer.HasHost();
    });
    if (kind == least.end()) {
      least.push_back(offer);
      continue;
    }
    kind->host_bytes = std::min(kind->host_bytes, offer.host_bytes);
    const bool is_less = kind->device_bytes == 0 || offer.device_bytes < kind->device_bytes;
    if (offer.device_bytes > 0 && is_less) kind->device_bytes = offer.device_bytes;
  }
  return least;
}

int64_t WorthOf(const RunConfig& config, const MemoryOffer& offer) {
  if (offer == MemoryOffer{offer.device_bytes}) return offer.device_bytes;
  constexpr int32_t kStages = 4, kReplicas = 2;
  const int32_t layers = std::max(1, config.model.layers / kStages);
  RunConfig own = config;
  if (own.pipeline.in_flight == 0) own.pipeline.in_flight = kStages;
  const StageHolds holds = HoldsOf(own, kReplicas, kReplicas, false);
  const StageHolds least = LeastHolds(own, layers, holds, offer).back();
  const NodeMemory split = MemoryIn(own, layers, false, least, offer);
  const auto whole = static_cast<double>(MemoryOf(own, layers, false, least).needed());
  double worth = 0x1p62;  // whatever somebody announces
  if (offer.device_bytes > 0) {
    worth = std::min(worth, whole / static_cast<double>(split.each.needed()) *
                                static_cast<double>(offer.device_bytes));
  }
  if (offer.HasHost()) {
    worth = std::min(worth, whole / static_cast<double>(split.host.needed()) *
                                static_cast<double>(offer.host_bytes));
  }
  return offer.IsUnlimited() ? 0 : static_cast<int64_t>(worth);
}

MemoryOffer OfferAfterShortage(const MemoryOffer& offered, const NodeMemory& had) {
  const auto less = [](int64_t offered_bytes, int64_t needed_bytes) {
    const int64_t at_most =
        offered_bytes == 0 ? needed_bytes : std::min(offered_bytes, needed_bytes);
    return at_most / 4 * 3;
  };
  MemoryOffer next = offered;
  next.device_bytes = less(offered.device_bytes, had.each.needed());
  if (offered.HasHost()) next.host_bytes = less(offered.host_bytes, had.host.needed());
  return next;
}

std::string OfferText(const MemoryOffer& offer) {
  const std::string text = BytesText(offer.device_bytes);
  return offer.HasHost() ? text + " and " + BytesText(offer.host_bytes) + " of the host" : text;
}

std::string NeedText(const NodeMemory& memory, const MemoryOffer& offer) {
  std::string text = BytesText(memory.each.needed());
  if (offer.device_bytes > 0) text += " of " + BytesText(offer.device_bytes);
  if (memory.devices > 1) text += absl::StrFormat(" on each of %d devices", memory.devices);
  if (!offer.HasHost()) return text;
  return text + absl::StrFormat(", %s of %s on the host", BytesText(memory.host.needed()),
                                BytesText(offer.host_bytes));
}

}  // namespace skerry
