// NCCL's functions for threads of one process, strict about what NCCL leaves to its callers: a call
// before the communicator is there, or before the one before was answered, is refused. Nothing
// waits: what all members have asked for is done by the last of them.
#include "tests/cuda_on_host/collectives_platform.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace {

enum class Kind { kAllReduce, kReduce, kBroadcast, kSend };

struct Operation {
  Kind kind = Kind::kAllReduce;
  size_t count = 0;
  int root = 0;
  std::vector<const float*> from;
  std::vector<float*> to;
  int asked = 0, wanted = 0;
  bool is_done = false;

  void Do() {
    const size_t members = from.size();
    if (kind == Kind::kSend) {
      std::memcpy(to[1], from[0], count * sizeof(float));
    } else if (kind == Kind::kBroadcast) {
      const std::vector<float> values(from[static_cast<size_t>(root)],
                                      from[static_cast<size_t>(root)] + count);
      for (float* each : to) std::memcpy(each, values.data(), count * sizeof(float));
    } else {
      std::vector<float> sum(count);
      for (size_t r = 0; r < members; ++r) {
        for (size_t i = 0; i < count; ++i) sum[i] += from[r][i];
      }
      for (size_t r = 0; r < members; ++r) {
        if (kind == Kind::kReduce && static_cast<int>(r) != root) continue;
        std::memcpy(to[r], sum.data(), count * sizeof(float));
      }
    }
    is_done = true;
  }
};

struct Meeting {
  int size = 0, joined = 0;
  bool failed = false;
  std::map<size_t, std::shared_ptr<Operation>> collectives;  // by number
  std::map<std::pair<int, int>, std::shared_ptr<Operation>> sends;
};

std::mutex mutex;
std::map<int, std::shared_ptr<Meeting>> meetings;
int ids = 0;
thread_local int group_depth = 0;

}  // namespace

struct ncclComm {
  std::shared_ptr<Meeting> meeting;
  int rank = 0;
  size_t calls = 0;
  std::vector<std::shared_ptr<Operation>> open;

  bool IsBusy() {
    std::erase_if(open, [](const auto& operation) { return operation->is_done; });
    return !open.empty() || meeting->joined < meeting->size;
  }
};

namespace {

ncclResult_t Ask(ncclComm_t comm, Kind kind, const void* from, void* to, size_t count, int root) {
  const std::lock_guard lock(mutex);
  if (comm->meeting->failed) return ncclRemoteError;
  if (group_depth == 0 && comm->IsBusy()) return ncclInvalidArgument;
  const auto size = static_cast<size_t>(comm->meeting->size);
  auto& operation = comm->meeting->collectives[comm->calls++];
  if (operation == nullptr) {
    operation = std::make_shared<Operation>(Operation{kind, count, root, {}, {}});
    operation->from.resize(size);
    operation->to.resize(size);
    operation->wanted = comm->meeting->size;
  }
  if (operation->kind != kind || operation->count != count || operation->root != root) {
    return ncclInvalidArgument;
  }
  operation->from[static_cast<size_t>(comm->rank)] = static_cast<const float*>(from);
  operation->to[static_cast<size_t>(comm->rank)] = static_cast<float*>(to);
  comm->open.push_back(operation);
  if (++operation->asked == operation->wanted) operation->Do();
  return ncclInProgress;
}

ncclResult_t Pair(ncclComm_t comm, int from, int to, const void* source, void* target,
                  size_t count) {
  const std::lock_guard lock(mutex);
  if (comm->meeting->failed) return ncclRemoteError;
  if (comm->IsBusy()) return ncclInvalidArgument;
  auto& operation = comm->meeting->sends[{from, to}];
  if (operation == nullptr || operation->is_done) {
    operation = std::make_shared<Operation>(Operation{Kind::kSend, count, 0, {}, {}});
    operation->from.resize(2);
    operation->to.resize(2);
  }
  if (source != nullptr) operation->from[0] = static_cast<const float*>(source);
  if (target != nullptr) operation->to[1] = static_cast<float*>(target);
  comm->open.push_back(operation);
  if (++operation->asked == 2) operation->Do();
  return ncclInProgress;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(mutex);
  std::memset(id, 0, sizeof(*id));
  ++ids;
  std::memcpy(id->internal, &ids, sizeof(ids));
  meetings[ids] = std::make_shared<Meeting>();
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const std::lock_guard lock(mutex);
  int number = 0;
  std::memcpy(&number, id.internal, sizeof(number));
  const auto found = meetings.find(number);
  if (found == meetings.end() || config->blocking != 0) return ncclInvalidArgument;
  found->second->size = size;
  ++found->second->joined;
  *comm = new ncclComm{found->second, rank, 0, {}};
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const std::lock_guard lock(mutex);
  *state = comm->IsBusy() ? ncclInProgress : ncclSuccess;
  // As where a container has too little shared memory: told once its members look for it.
  if (std::getenv("SKERRY_FAKE_NCCL_MEETS_NOBODY") != nullptr) *state = ncclInternalError;
  if (comm->meeting->failed && *state == ncclInProgress) *state = ncclRemoteError;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const std::lock_guard lock(mutex);
  comm->meeting->failed = true;
  delete comm;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited" : "invalid argument";
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t) {
  return Ask(comm, Kind::kAllReduce, from, to, count, 0);
}
ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t, ncclRedOp_t,
                        int root, ncclComm_t comm, cudaStream_t) {
  return Ask(comm, Kind::kReduce, from, to, count, root);
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t, int root,
                           ncclComm_t comm, cudaStream_t) {
  return Ask(comm, Kind::kBroadcast, from, to, count, root);
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t) {
  return Pair(comm, comm->rank, peer, from, nullptr, count);
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t) {
  return Pair(comm, peer, comm->rank, nullptr, to, count);
}
ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  --group_depth;
  return ncclSuccess;
}
}
