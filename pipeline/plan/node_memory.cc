#include "pipeline/plan/node_memory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "routing/cost_model.h"

namespace skerry {
namespace {

constexpr int64_t kDeltaPiece = int64_t{4} << 20;    // compression/device_codecs.h
constexpr int64_t kOffloadPiece = int64_t{1} << 20;  // model/host_optimizer.h
constexpr int64_t kSwapSlots = 2;                    // kernels/stash_store.h
constexpr int64_t kStagedStashes = 4;                // there, too

// A node whose devices cannot share this run's tensors refuses the run (node/node_actor.h).
int32_t InUse(const RunConfig& config, const MemoryOffer& offer, DeviceSplit split) {
  if (split == DeviceSplit::kTensors)
    return CheckTensorSplit(config, offer.devices).ok() ? offer.devices : 1;
  return std::clamp(offer.devices, 1, std::max(1, config.pipeline.sequences_per_microbatch));
}

RunConfig OwnPart(RunConfig config, int32_t devices) {
  int32_t& sequences = config.pipeline.sequences_per_microbatch;
  sequences = (sequences + devices - 1) / devices;
  return config;
}

// As MemoryOf, with what each of so many devices has of its own sequences and parameters.
StageMemory SequencesOut(const RunConfig& config, int32_t layers, bool holds_ends,
                         const StageHolds& holds, int32_t devices) {
  StageMemory each = MemoryOf(config, layers, holds_ends, holds);
  if (devices <= 1) return each;
  const StageMemory of_own = MemoryOf(OwnPart(config, devices), layers, holds_ends, holds);
  each.stash = of_own.stash;
  each.workspace = of_own.workspace;
  if (config.inner.optimizer != InnerOptimizer::kMuon) each.optimizer /= devices;
  return each;
}

bool MayShareTensors(const RunConfig& config, const MemoryOffer& offer) {
  return offer.split == DeviceSplit::kEither && !config.cluster.is_on() &&
         CheckTensorSplit(config, offer.devices).ok();
}

bool MayOffload(const RunConfig& config, const MemoryOffer& offer) {
  return offer.HasHost() && config.pipeline.offload != Offload::kNever &&
         config.inner.optimizer == InnerOptimizer::kAdamW;
}

// `holds` with as many stashes parked as a node with this offer must; "always": as it may. More of
// them take less of the devices and more of what is elsewhere. `on_disk`: although it has a host.
StageHolds WithParked(const RunConfig& config, int32_t layers, bool holds_ends, StageHolds holds,
                      const MemoryOffer& offer, bool on_disk = false) {
  holds.parked = 0;
  holds.on_disk = on_disk;
  if (!MayPark(config, offer) || layers == 0) return holds;
  const bool always = config.pipeline.offload_activations == Offload::kAlways;
  int32_t low = 0, high = std::max(0, StashesOf(config, holds_ends, holds) - kResidentStashes);
  while (low < high) {
    holds.parked = always ? (low + high + 1) / 2 : (low + high) / 2;
    const NodeMemory memory = MemoryIn(config, layers, holds_ends, holds, offer);
    if (always) {
      const bool fits =
          memory.host.needed() <= offer.host_bytes && memory.spill <= offer.spill_bytes;
      (fits ? low : high) = fits ? holds.parked : holds.parked - 1;
    } else {
      const bool fits = offer.device_bytes == 0 || memory.each.needed() <= offer.device_bytes;
      (fits ? high : low) = fits ? holds.parked : holds.parked + 1;
    }
  }
  holds.parked = low;
  return holds;
}

// With stashes parked on the host, or on the disk of a node without; and on the disk of one with
// both.
std::vector<StageHolds> WaysToPark(const RunConfig& config, int32_t layers, bool holds_ends,
                                   const StageHolds& holds, const MemoryOffer& offer) {
  std::vector<StageHolds> ways = {WithParked(config, layers, holds_ends, holds, offer)};
  if (ways[0].parked > 0 && offer.HasHost() && offer.disk_flops_per_byte > 0)
    ways.push_back(WithParked(config, layers, holds_ends, holds, offer, true));
  return ways;
}

}  // namespace

bool NodeMemory::FitsIn(const MemoryOffer& offer) const {
  const bool on_device = offer.device_bytes == 0 || each.needed() <= offer.device_bytes;
  return on_device && host.needed() <= offer.host_bytes && spill <= offer.spill_bytes;
}

DeviceSplit SplitOf(const StageHolds& holds, const MemoryOffer& offer) {
  if (offer.split != DeviceSplit::kEither) return offer.split;
  return holds.by_tensors ? DeviceSplit::kTensors : DeviceSplit::kSequences;
}

NodeMemory MemoryIn(const RunConfig& config, int32_t layers, bool holds_ends,
                    const StageHolds& holds, const MemoryOffer& offer) {
  NodeMemory memory;
  memory.devices = InUse(config, offer, SplitOf(holds, offer));
  const bool by_tensors = SplitOf(holds, offer) == DeviceSplit::kTensors;
  StageMemory& each = memory.each;
  StageMemory& host = memory.host;
  each = by_tensors ? MemoryOf(config, layers, holds_ends, holds, memory.devices)
                    : SequencesOut(config, layers, holds_ends, holds, memory.devices);
  for (int64_t StageMemory::*part :
       {&StageMemory::outer, &StageMemory::codec, &StageMemory::sums, &StageMemory::handover,
        &StageMemory::checkpoint, &StageMemory::buffers}) {
    if (offer.HasHost()) {
      host.*part = std::exchange(each.*part, 0);
    } else {
      each.*part /= memory.devices;
    }
  }
  const int64_t slots = holds.parked == 0 ? 0 : holds.parked + kSwapSlots;
  const int64_t stash =
      by_tensors ? StashBytes(config, layers, holds_ends, holds, memory.devices)
                 : StashBytes(OwnPart(config, memory.devices), layers, holds_ends, holds);
  const int64_t parked = memory.devices * slots * stash;
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  const int64_t parameters = StageParameters(config.model, layers, holds_ends);
  if (!offer.HasHost()) {
    memory.spill = parked;
    // Put together, for deltas, from what each has.
    if (memory.devices > 1 && by_tensors) each.weights += parameters * kFloat / memory.devices;
    return memory;
  }
  host.stash = holds.on_disk && holds.parked > 0 ? memory.devices * kStagedStashes * stash : parked;
  memory.spill = holds.on_disk ? parked : 0;
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

bool MayPark(const RunConfig& config, const MemoryOffer& offer) {
  return config.pipeline.offload_activations != Offload::kNever && offer.flops_per_byte > 0 &&
         (offer.HasHost() || offer.spill_bytes > 0);
}

double ParkingWait(const RunConfig& config, int32_t layers, bool holds_ends,
                   const StageHolds& holds, const MemoryOffer& offer) {
  if (holds.parked == 0) return 0;
  const double plain = holds.on_disk ? offer.disk_flops_per_byte : offer.flops_per_byte;
  const double bf16 = holds.on_disk ? offer.bf16_disk_flops_per_byte : offer.bf16_flops_per_byte;
  const bool rounds = config.inner.compute == InnerCompute::kBfloat16 && bf16 > 0;
  const int32_t stashes = StashesOf(config, holds_ends, holds);
  const double share =
      static_cast<double>(holds.parked) / std::max(holds.parked, stashes - kResidentStashes);
  const double moved = 2 * share *
                       StashBytesMoved(config, layers, holds,
                                       rounds ? InnerCompute::kBfloat16 : InnerCompute::kFloat32);
  const double forward = layers * LayerForwardFlops(config);
  const double computed = (1 + kBackwardPerForward + RepeatShare(config, layers, holds)) * forward +
                          (holds_ends ? LossFlops(config) : 0);
  return std::max(0.0, moved * (rounds ? bf16 : plain) - computed) / forward;
}

double PutOffShare(const RunConfig& config, int32_t layers, bool holds_ends,
                   const StageHolds& holds, const MemoryOffer& offer) {
  return RepeatShare(config, layers, holds) + ParkingWait(config, layers, holds_ends, holds, offer);
}

StageHolds FittedHolds(const RunConfig& config, int32_t layers, bool holds_ends,
                       const StageHolds& holds, const MemoryOffer& offer) {
  StageHolds tried = holds, best = holds, last = holds;
  double least = std::numeric_limits<double>::infinity();
  for (const StageHolds& most : LeastHolds(config, layers, holds, offer)) {
    tried = most;
    if (config.pipeline.recompute == Recompute::kAuto) tried.recomputed = 0;
    for (; tried.recomputed <= most.recomputed; ++tried.recomputed) {
      for (const StageHolds& parks : WaysToPark(config, layers, holds_ends, tried, offer)) {
        last = parks;
        if (offer.IsUnlimited()) return parks;
        if (!MemoryIn(config, layers, holds_ends, parks, offer).FitsIn(offer)) continue;
        const double share = PutOffShare(config, layers, holds_ends, parks, offer);
        if (share < least) best = parks;
        least = std::min(least, share);
        // From here on more layers recomputed only cost more.
        if (share == 0 || parks.parked == 0) return best;
      }
    }
    if (std::isfinite(least)) return best;
  }
  return last;
}

std::vector<StageHolds> LeastHolds(const RunConfig& config, int32_t layers, const StageHolds& holds,
                                   const MemoryOffer& offer) {
  StageHolds least = holds;
  least.recomputed = config.pipeline.recompute == Recompute::kNever ? 0 : layers;
  least.parked = 0;
  least.by_tensors = false;
  const bool may_offload = MayOffload(config, offer);
  const bool must = may_offload && config.pipeline.offload == Offload::kAlways;
  std::vector<StageHolds> ways;
  for (const bool by_tensors : {false, true}) {
    if (by_tensors && !MayShareTensors(config, offer)) continue;
    least.by_tensors = by_tensors;
    least.offloads = false;
    if (!must) ways.push_back(least);
    least.offloads = true;
    if (may_offload) ways.push_back(least);
  }
  return ways;
}

bool CanHold(const RunConfig& config, int32_t layers, bool holds_ends, const StageHolds& holds,
             const MemoryOffer& offer) {
  const std::vector<StageHolds> ways = LeastHolds(config, layers, holds, offer);
  return std::any_of(ways.begin(), ways.end(), [&](const StageHolds& least) {
    const auto parks = WaysToPark(config, layers, holds_ends, least, offer);
    return std::any_of(parks.begin(), parks.end(), [&](const StageHolds& way) {
      return MemoryIn(config, layers, holds_ends, way, offer).FitsIn(offer);
    });
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

int64_t WorthOf(const RunConfig& config, const MemoryOffer& offer) {
  if (offer == MemoryOffer{offer.device_bytes}) return offer.device_bytes;
  constexpr int32_t kStages = 4, kReplicas = 2;
  const int32_t layers = std::max(config.model.layers_together(), config.model.layers / kStages);
  RunConfig own = config;
  if (own.pipeline.in_flight == 0) own.pipeline.in_flight = kStages;
  const StageHolds holds = HoldsOf(own, kReplicas, kReplicas, false);
  const StageHolds least = LeastHolds(own, layers, holds, offer).back();
  StageHolds parks = least;
  if (!offer.HasHost())
    parks = WithParked(
        own, layers, false, least,
        MemoryOffer{1, 0, offer.devices, offer.spill_bytes, offer.flops_per_byte, 0, offer.split});
  const NodeMemory split = MemoryIn(own, layers, false, parks, offer);
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

}  // namespace skerry
