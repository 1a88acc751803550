// What a node is to build when it has been given a stage.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/device_split.h"
#include "common/run_config.h"
#include "pipeline/exec/stage_work.h"
#include "wire/message/message.h"

namespace skerry {

struct StageOrder {
  StageAssignment stage;
  bool holds_ends = false;                      // embedding, final norm and head too
  DeviceSplit split = DeviceSplit::kSequences;  // what several devices share out
  // What it puts off for want of memory (pipeline/plan/memory_model.h).
  int32_t recomputed_layers = 0;
  bool offloads = false;
  int32_t parked_stashes = 0, resident_stashes = 0;
  bool parks_on_disk = false;  // of GPUs, which else park on their host
  double parking_waits = 0;    // ParkingWait (pipeline/plan/node_memory.h), for simulators
  // By the memory model, without its margin.
  int64_t needs_bytes = 0;  // of each device
  int64_t host_bytes = 0;   // besides, where devices have memory of their own
};

// Builds the arithmetic of a stage; runs on the device thread.
using StageWorkFactory = std::function<absl::StatusOr<std::unique_ptr<StageWork>>(
    const RunConfig& config, const StageOrder& order, const std::vector<ShardName>& shards)>;

}  // namespace skerry
