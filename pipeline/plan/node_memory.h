// Where a stage lies on a node, and whether it fits: memory_model.h counts bytes, this says of
// which memory.
//
//                       one processor  n devices cut out of it     n GPUs
//   weights, gradients  whole          whole in each               whole in each, and the weights
//                                                                  once on the host, for deltas
//   optimizer           whole          1/n, each steps its part    the same, or offloaded: on the
//                                      (ZeRO-1); Muon's whole, as  host, once
//                                      its parts end between
//                                      tensors and may be uneven
//   stash, workspace    whole          of its sequences of a microbatch, of S ⌈S/n⌉ at most
//   outer, codec, sums  whole          1/n: they are the node's,   on the host, once; of codec a
//                                      once                        piece in each GPU too
//   parked stashes      on disk        of its sequences, on disk   of its sequences, on the host,
//   or
//                                                                  on disk, and four on the host
//   handover,           whole          the same                    on the host, once
//   checkpoint, buffers
//
// Where the devices share the stage's tensors instead (`join --split tensors`,
// model/tensor_team.h), of weights, gradients, optimizer, stash and workspace each has 1/n, the
// stream and the norms whole; parameters are once more on the host. The rest is as above. Devices
// that may do either (`--split auto`) share tensors in stages that have no room otherwise.
//
// The devices of a node together are one replica of a stage (model/stage_team.h).
//
// What a node without room may put off: activations of a microbatch that waits for its way back may
// lie elsewhere meanwhile (parked; Wu et al., "SSDTrain", 2024, section 3), or be computed again,
// and the optimizer's state may lie on the host. FittedHolds takes what costs the least time, and
// tensors, whose sums nothing hides, last.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/device_split.h"
#include "common/run_config.h"
#include "pipeline/plan/memory_model.h"
#include "wire/message/device_profile.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

// How `devices` > 1 equal devices announce what bits they compute ("4 × cpu, …", where they share
// tensors "4 ÷ cpu, …", where either "4 ×÷ cpu, …"), and how many that says there are: 1 where it
// says nothing of the kind, 64 at most. To coordinators that do not know "÷" or "×÷" it is one
// device, which is on the safe side.
std::string TeamNumericProfile(size_t devices, const std::string& each,
                               DeviceSplit split = DeviceSplit::kSequences);
int32_t AnnouncedDevices(const DeviceProfile& device);
DeviceSplit AnnouncedSplit(const DeviceProfile& device);

// What a node offers a stage to lie in.
struct MemoryOffer {
  int64_t device_bytes = 0;  // of each device; 0: not stated, no limit
  int64_t host_bytes = 0;   // besides, of a node whose devices have memory of their own; 0: none is
                            // told apart, and all counts as the devices'
  int32_t devices = 1;      // equal ones, as announced
  int64_t spill_bytes = 0;  // of disk, for parked stashes; 0: none
  // What the node computes while a byte of a parked stash moves there or back, FLOP; in bf16. In
  // powers of kRateStep, so that the noise of a measurement changes no plan. 0: not known, and
  // nothing is parked.
  double flops_per_byte = 0;
  double bf16_flops_per_byte = 0;  // 0: as in float32
  DeviceSplit split = DeviceSplit::kSequences;
  // To the disk and back, of a node that might park on its host, for which the others are.
  double disk_flops_per_byte = 0, bf16_disk_flops_per_byte = 0;
  bool HasHost() const { return host_bytes > 0; }
  int64_t total() const;  // all devices' and the host's, for people
  bool IsUnlimited() const { return device_bytes == 0 && !HasHost(); }
  // What a stage takes of both is in the same places.
  bool IsOfKindOf(const MemoryOffer& other) const {
    return devices == other.devices && split == other.split && HasHost() == other.HasHost();
  }
  bool operator==(const MemoryOffer&) const = default;
};
inline constexpr double kRateStep = 1.5;
// To a GPU's host and back, where nothing better is known: PCI Express 3 × 16, as kOffloadSeconds.
inline constexpr double kBusBytesPerS = 12e9;
MemoryOffer OfferOf(const DeviceProfile& device);

// What a stage takes of a node.
struct NodeMemory {
  StageMemory each;     // of each device that is in use
  StageMemory host;     // besides, once; nothing where the offer has no host
  int64_t spill = 0;    // on disk, of all devices, no margin: files are of one size
  int32_t devices = 1;  // in use: of more than a microbatch has sequences some are not
  int64_t total() const { return devices * each.total() + host.total(); }
  bool FitsIn(const MemoryOffer& offer) const;
};

// Arguments as MemoryOf.
NodeMemory MemoryIn(const RunConfig& config, int32_t layers, bool holds_ends,
                    const StageHolds& holds, const MemoryOffer& offer);

// Resident at least, where stashes are parked: one to compute on, one that moves meanwhile. Where
// no more are resident every stash is moved, with more of them fewer.
inline constexpr int32_t kResidentStashes = 2;
// What a node waits for parked stashes, a microbatch, in forward passes of the stage: of what it
// moves, what takes longer than all that it computes. 0 where that hides it.
double ParkingWait(const RunConfig& config, int32_t layers, bool holds_ends,
                   const StageHolds& holds, const MemoryOffer& offer);
// With RepeatShare: what these holds cost, in forward passes, a microbatch.
double PutOffShare(const RunConfig& config, int32_t layers, bool holds_ends,
                   const StageHolds& holds, const MemoryOffer& offer);

// `holds` with as little put off as a node with this offer must: nothing where it can do without;
// else, with the least PutOffShare, some layers recomputed and as few stashes parked as then must
// be (so stashes alone where moving them is hidden; on the host rather than on a disk that costs as
// much); where that does not help and the node has a host, the optimizer's state there; and where
// that does not, either, all of it with tensors shared, of devices that may. Unless the
// configuration says otherwise: "always" parks as many as there is room for. One more gradient that
// waits gains far less than a layer that is not computed twice.
StageHolds FittedHolds(const RunConfig& config, int32_t layers, bool holds_ends,
                       const StageHolds& holds, const MemoryOffer& offer);
// With all put off that may be, but nothing parked, which is a matter of the offer's bytes: without
// offload first, which takes more of the host, then with it; then both with tensors shared, in runs
// that do not form clusters, whose nodes must all compute the same bits.
std::vector<StageHolds> LeastHolds(const RunConfig& config, int32_t layers, const StageHolds& holds,
                                   const MemoryOffer& offer = {});
// What the devices of a node with this offer share out of a stage that it holds so; not kEither.
DeviceSplit SplitOf(const StageHolds& holds, const MemoryOffer& offer);
// Whether a node with this offer has room for the stage, if it puts off what it can.
bool CanHold(const RunConfig& config, int32_t layers, bool holds_ends, const StageHolds& holds,
             const MemoryOffer& offer);

// What a node holds at worst: the least, fitted, and as many gradients more as then fit, up to
// GradientsMax. A node keeps to it (StageActor, StageTrainer); it changes when things are computed,
// never what. `config` is a settled one.
StageHolds HoldsOf(const RunConfig& config, const PipelinePlan& plan, int32_t stage,
                   const MemoryOffer& offer);

// What a node with this offer makes of it in that stage of a plan; where it does not fit, the
// least.
NodeMemory MemoryIn(const RunConfig& config, const PipelinePlan& plan, int32_t stage,
                    const MemoryOffer& offer);

// Whether a node with this offer may park stashes in such a run.
bool MayPark(const RunConfig& config, const MemoryOffer& offer);

// Of nodes of each kind (their devices and what they share, with a host, a disk, or without) the
// least of each: what fits those fits all, whatever they put off.
std::vector<MemoryOffer> LeastOffers(std::span<const MemoryOffer> offers);

// To compare nodes by one number: what one with a single device and no host would have to offer to
// hold as much of a stage in the middle of the run. 0: no limit.
int64_t WorthOf(const RunConfig& config, const MemoryOffer& offer);

// What a node offers next whose stage has just run out of memory, although the model said that it
// takes no more than `had`: less than either, so that the planner gives it another stage, fewer
// layers, or has it put off. The machine has given the rest to others. Where it was the disk's
// space that ran out, less of that alone.
MemoryOffer OfferAfterShortage(const MemoryOffer& offered, const NodeMemory& had,
                               bool of_disk = false);

// "24.0 GiB", "24.0 GiB and 64.0 GiB of the host", "24.0 GiB and 100.0 GiB of disk"; of all three
// "24.0 GiB, 64.0 GiB of the host and 100.0 GiB of disk".
std::string OfferText(const MemoryOffer& offer);
// "9.1 GiB of 24.0 GiB", with a host "…, 12.0 GiB of 64.0 GiB on the host"; with the margin; with
// parked stashes on disk "…, 40.0 GiB of 100.0 GiB on disk".
std::string NeedText(const NodeMemory& memory, const MemoryOffer& offer);

}  // namespace skerry
