// Memory of a node with several devices, which together are one replica of a stage
// (model/stage_team.h). Of what memory_model.h counts each of n devices has
//
//   weights, gradients   whole
//   optimizer            1/n: each steps its part (ZeRO-1); with Muon whole, as parts end between
//                        tensors and may be uneven
//   outer, codec, handover, checkpoint, buffers
//                        1/n: they are in host memory, once for the node, and where the devices are
//                        cut out of the processor so is their memory. GPUs have none of it
//   stash, workspace     as of a microbatch of its sequences: of S one has ⌈S/n⌉ at most
//
// With the announced memory being one device's (node/device_probe.h), planning needs one number
// that is comparable with what a stage takes of a node with one device: OfferedFor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/run_config.h"
#include "pipeline/plan/memory_model.h"
#include "wire/message/device_profile.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

// How `devices` > 1 equal devices announce what bits they compute ("4 × cpu, …"), and how many
// that says there are: 1 where it says nothing of the kind, 64 at most.
std::string TeamNumericProfile(size_t devices, const std::string& each);
int32_t AnnouncedDevices(const DeviceProfile& device);

// Of those, how many have sequences of a microbatch.
int32_t DevicesInUse(const RunConfig& config, const DeviceProfile& device);

// Of one of so many devices in use, at worst; arguments as MemoryOf.
StageMemory MemoryOfEach(const RunConfig& config, int32_t layers, bool holds_ends,
                         const StageHolds& holds, int32_t devices);
// The same of a node in a plan; `config` is a settled one.
StageMemory EachOf(const RunConfig& config, const PipelinePlan& plan, int32_t stage,
                   const DeviceProfile& device);
// What it holds of the stage on all its devices.
int64_t HeldOnAll(const RunConfig& config, const PipelinePlan& plan, int32_t stage,
                  const DeviceProfile& device);

// What a node with one device would have to offer to be worth the same: a stage whose needed() is
// at most that fits each of the devices. It is reckoned for a stage that has the least optimizer
// and outer state and the most of what is not split, so it is less than most stages could use. 0:
// no limit.
int64_t OfferedFor(const RunConfig& config, const DeviceProfile& device);
// The same of many: memory_bytes and devices as announced, [nodes]; no `devices`: one each.
std::vector<int64_t> OfferedFor(const RunConfig& config, const std::vector<int64_t>& memory_bytes,
                                const std::vector<int32_t>& devices);

}  // namespace skerry
