// What the GPU plug-in says of groups of devices (NCCL), by a second function that it exports where
// it was built with NCCL's headers. Plain types, as in table.h. The library itself is opened at run
// time, when a group is first wanted.
//
// Nothing here waits: `begin` and the operations start, `poll` says how it stands. After `failed`,
// or in place of waiting any longer, `end` gives the group up: whatever still runs of it on the
// device stops, and the other members' polls fail. One thread uses a member.
#pragma once

#include <cstdint>

#include "kernels/plugin/table.h"

namespace skerry {

inline constexpr uint32_t kGpuGroupTableVersion = 2;
inline constexpr char kGpuGroupTableSymbol[] = "skerry_gpu_group_table";

struct GpuGroup;  // the plug-in's own: one member

// Names a communicator; made by one member, and passed to the others.
struct GpuGroupId {
  uint8_t bytes[128];
};

enum class GpuGroupState : int32_t { kDone, kUnderWay, kFailed };

struct GpuGroupTable {
  uint32_t version;  // kGpuGroupTableVersion
  uint32_t bytes;    // sizeof(GpuGroupTable)

  // NCCL's version, as 22809; 0, and why: it cannot be used here.
  int32_t (*library)(GpuText* why);
  bool (*make_id)(GpuGroupId* id, GpuText* why);
  // Begins to meet the other `size` − 1 members; null, and why: it cannot.
  GpuGroup* (*begin)(GpuDevice*, const GpuGroupId* id, int32_t rank, int32_t size, GpuText* why);
  GpuGroupState (*poll)(GpuGroup*, GpuText* why);
  void (*end)(GpuGroup*);

  // kernels/group/group.h, on device memory, in the device's order of operations. Part p of n is
  // [n·p/size, n·(p+1)/size). false, and why: it did not start.
  bool (*all_reduce)(GpuGroup*, float* values, int64_t n, GpuText* why);
  // Of the values [first, first + count) only.
  bool (*reduce_scatter)(GpuGroup*, float* values, int64_t n, int64_t first, int64_t count,
                         GpuText* why);
  bool (*all_gather)(GpuGroup*, float* values, int64_t n, GpuText* why);
  bool (*broadcast)(GpuGroup*, float* values, int64_t n, int32_t root, GpuText* why);
  bool (*send)(GpuGroup*, const float* values, int64_t n, int32_t to, GpuText* why);
  bool (*receive)(GpuGroup*, float* values, int64_t n, int32_t from, GpuText* why);
};

using GpuGroupTableFunction = const GpuGroupTable* (*)(uint32_t wanted);

}  // namespace skerry
