// Groups of devices over NCCL, which is opened here and nowhere linked.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "collectives_platform.h"
#include "kernels/cuda/device.h"
#include "kernels/plugin/group_table.h"

namespace skerry {

struct GpuGroup {
  GpuDevice* device = nullptr;
  ncclComm_t communicator = nullptr;
  int32_t rank = 0, size = 1;
};

namespace {

void Say(GpuText* why, const char* words) {
  std::snprintf(why->text, sizeof(why->text), "%s", words);
}

// The functions of the library, by their own types.
struct Library {
  void* handle = nullptr;
  int version = 0;
  GpuText why = {};
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init_rank = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclReduce) reduce = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;

  template <typename Function>
  void Find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    if (function == nullptr) std::snprintf(why.text, sizeof(why.text), "NCCL has no %s", name);
  }

  Library() {
    const char* given = std::getenv("SKERRY_NCCL");
    handle = dlopen(given != nullptr ? given : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* error = dlerror();
      std::snprintf(why.text, sizeof(why.text), "NCCL does not load: %s",
                    error == nullptr ? "unknown error" : error);
      return;
    }
    Find(get_version, "ncclGetVersion");
    Find(get_unique_id, "ncclGetUniqueId");
    Find(init_rank, "ncclCommInitRankConfig");
    Find(async_error, "ncclCommGetAsyncError");
    Find(abort, "ncclCommAbort");
    Find(error_string, "ncclGetErrorString");
    Find(all_reduce, "ncclAllReduce");
    Find(reduce, "ncclReduce");
    Find(broadcast, "ncclBroadcast");
    Find(send, "ncclSend");
    Find(receive, "ncclRecv");
    Find(group_start, "ncclGroupStart");
    Find(group_end, "ncclGroupEnd");
    if (why.text[0] != '\0') return;
    if (get_version(&version) != ncclSuccess) version = 0;
    if (version == 0) Say(&why, "NCCL does not say its version");
  }
};

const Library& Nccl() {
  static const Library library;
  return library;
}

// A communicator that does not block answers kInProgress, and poll says what became of it.
bool Started(ncclResult_t result, GpuText* why) {
  if (result == ncclSuccess || result == ncclInProgress) return true;
  Say(why, Nccl().error_string(result));
  return false;
}

struct Part {
  int64_t first, size;
};
Part PartOf(const GpuGroup& group, int64_t n, int32_t p) {
  const int64_t first = n * p / group.size;
  return {first, n * (p + 1) / group.size - first};
}

Part Common(const Part& a, const Part& b) {
  const int64_t first = std::max(a.first, b.first);
  return {first, std::min(a.first + a.size, b.first + b.size) - first};
}

int32_t LibraryVersion(GpuText* why) {
  *why = Nccl().why;
  return Nccl().version;
}

bool MakeId(GpuGroupId* id, GpuText* why) {
  ncclUniqueId made;
  static_assert(sizeof(made) == sizeof(*id));
  if (!Started(Nccl().get_unique_id(&made), why)) return false;
  std::memcpy(id->bytes, &made, sizeof(made));
  return true;
}

GpuGroup* Begin(GpuDevice* device, const GpuGroupId* id, int32_t rank, int32_t size, GpuText* why) {
  EnterGpu(device);
  auto* group = new GpuGroup{device, nullptr, rank, size};
  ncclUniqueId shared;
  std::memcpy(&shared, id->bytes, sizeof(shared));
  ncclConfig_t config = cuda::NonBlocking();
  if (Started(Nccl().init_rank(&group->communicator, size, shared, rank, &config), why)) {
    return group;
  }
  if (group->communicator != nullptr) Nccl().abort(group->communicator);
  delete group;
  return nullptr;
}

GpuGroupState Poll(GpuGroup* group, GpuText* why) {
  EnterGpu(group->device);
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = Nccl().async_error(group->communicator, &state);
  if (!Started(asked, why) || !Started(state, why)) return GpuGroupState::kFailed;
  const bool is_done = state == ncclSuccess && cuda::IsIdle(group->device->stream);
  return is_done ? GpuGroupState::kDone : GpuGroupState::kUnderWay;
}

// Never ncclCommDestroy: it may wait for the others to do the same.
void End(GpuGroup* group) {
  EnterGpu(group->device);
  Nccl().abort(group->communicator);
  delete group;
}

bool AllReduce(GpuGroup* group, float* values, int64_t n, GpuText* why) {
  EnterGpu(group->device);
  return Started(Nccl().all_reduce(values, values, static_cast<size_t>(n), ncclFloat32, ncclSum,
                                   group->communicator, group->device->stream),
                 why);
}

// One operation for what of each part is in the range, for parts that may differ by a value.
template <typename Operation>
bool ForParts(GpuGroup* group, int64_t n, Part range, GpuText* why, const Operation& operation) {
  EnterGpu(group->device);
  if (!Started(Nccl().group_start(), why)) return false;
  bool started = true;
  for (int32_t p = 0; p < group->size && started; ++p) {
    const Part part = Common(PartOf(*group, n, p), range);
    if (part.size > 0) started = Started(operation(p, part), why);
  }
  return Started(Nccl().group_end(), why) && started;
}

bool ReduceScatter(GpuGroup* group, float* values, int64_t n, int64_t first, int64_t count,
                   GpuText* why) {
  return ForParts(group, n, {first, count}, why, [&](int32_t p, Part part) {
    float* at = values + part.first;
    return Nccl().reduce(at, at, static_cast<size_t>(part.size), ncclFloat32, ncclSum, p,
                         group->communicator, group->device->stream);
  });
}

bool AllGather(GpuGroup* group, float* values, int64_t n, GpuText* why) {
  return ForParts(group, n, {0, n}, why, [&](int32_t p, Part part) {
    float* at = values + part.first;
    return Nccl().broadcast(at, at, static_cast<size_t>(part.size), ncclFloat32, p,
                            group->communicator, group->device->stream);
  });
}

bool Broadcast(GpuGroup* group, float* values, int64_t n, int32_t root, GpuText* why) {
  EnterGpu(group->device);
  return Started(Nccl().broadcast(values, values, static_cast<size_t>(n), ncclFloat32, root,
                                  group->communicator, group->device->stream),
                 why);
}

bool Send(GpuGroup* group, const float* values, int64_t n, int32_t to, GpuText* why) {
  EnterGpu(group->device);
  return Started(Nccl().send(values, static_cast<size_t>(n), ncclFloat32, to, group->communicator,
                             group->device->stream),
                 why);
}

bool Receive(GpuGroup* group, float* values, int64_t n, int32_t from, GpuText* why) {
  EnterGpu(group->device);
  return Started(Nccl().receive(values, static_cast<size_t>(n), ncclFloat32, from,
                                group->communicator, group->device->stream),
                 why);
}

constexpr GpuGroupTable kTable = {kGpuGroupTableVersion,
                                  sizeof(GpuGroupTable),
                                  &LibraryVersion,
                                  &MakeId,
                                  &Begin,
                                  &Poll,
                                  &End,
                                  &AllReduce,
                                  &ReduceScatter,
                                  &AllGather,
                                  &Broadcast,
                                  &Send,
                                  &Receive};

}  // namespace
}  // namespace skerry

extern "C" __attribute__((visibility("default"))) const skerry::GpuGroupTable*
skerry_gpu_group_table(uint32_t wanted) {
  return wanted == skerry::kTable.version ? &skerry::kTable : nullptr;
}
