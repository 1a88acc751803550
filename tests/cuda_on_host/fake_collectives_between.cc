// NCCL's functions between processes, as far as a lane uses them: what is summed lies in a file
// that an id names, of which each member has two rows, for even and odd sums. Nothing waits.
#include "tests/cuda_on_host/collectives_platform.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>

namespace {

constexpr size_t kMembersMax = 8;
constexpr size_t kValuesMax = size_t{1} << 18;

struct Meeting {
  std::atomic<int> joined;
  std::atomic<bool> failed;
  std::atomic<uint64_t> given[kMembersMax];  // sums that each has given its part of
  float values[2][kMembersMax][kValuesMax];
};

// $SKERRY_FAKE_NCCL_FAILS: the sum at which member 1 fails, once.
uint64_t FailsAt() {
  const char* given = std::getenv("SKERRY_FAKE_NCCL_FAILS");
  return given == nullptr ? UINT64_MAX : std::strtoull(given, nullptr, 10);
}

}  // namespace

struct ncclComm {
  Meeting* meeting = nullptr;
  size_t rank = 0, size = 0, count = 0;
  uint64_t given = 0;
  float* to = nullptr;  // of the sum under way
  std::string file;
};

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 0, sizeof(*id));
  const std::string name = (std::filesystem::temp_directory_path() /
                            ("skerry-meeting-" + std::to_string(std::random_device()())))
                               .string();
  const int file = open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (file < 0 || name.size() >= sizeof(*id) || ftruncate(file, sizeof(Meeting)) != 0)
    return ncclInternalError;
  close(file);
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const std::string name(id.internal, strnlen(id.internal, sizeof id.internal));
  const int file = open(name.c_str(), O_RDWR);
  if (file < 0 || config->blocking != 0 || size > static_cast<int>(kMembersMax))
    return ncclInvalidArgument;
  void* const memory = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return ncclInternalError;
  *comm = new ncclComm{static_cast<Meeting*>(memory),
                       static_cast<size_t>(rank),
                       static_cast<size_t>(size),
                       0,
                       0,
                       nullptr,
                       name};
  if (++(*comm)->meeting->joined == size) unlink(name.c_str());
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  Meeting& meeting = *comm->meeting;
  const bool all_here = meeting.joined == static_cast<int>(comm->size);
  const auto has_given = [&](const std::atomic<uint64_t>& given) { return given >= comm->given; };
  const bool all_gave = std::all_of(meeting.given, meeting.given + comm->size, has_given);
  *state = all_here && all_gave ? ncclSuccess : ncclInProgress;
  if (*state == ncclInProgress && meeting.failed) *state = ncclRemoteError;
  if (*state != ncclSuccess || comm->to == nullptr) return ncclSuccess;
  std::fill_n(comm->to, comm->count, 0.0F);
  for (size_t r = 0; r < comm->size; ++r) {
    for (size_t i = 0; i < comm->count; ++i) comm->to[i] += meeting.values[comm->given % 2][r][i];
  }
  comm->to = nullptr;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->meeting->failed = true;
  unlink(comm->file.c_str());
  munmap(comm->meeting, sizeof(Meeting));
  delete comm;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  if (result == ncclRemoteError) return "remote process exited";
  return result == ncclInternalError ? "an \"internal\" error" : "invalid argument";
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t) {
  if (count > kValuesMax || comm->to != nullptr) return ncclInvalidArgument;
  if (comm->rank == 1 && comm->given == FailsAt()) return ncclInternalError;
  const uint64_t number = ++comm->given;
  std::memcpy(comm->meeting->values[number % 2][comm->rank], from, count * sizeof(float));
  comm->to = static_cast<float*>(to);
  comm->count = count;
  comm->meeting->given[comm->rank] = number;
  return ncclInProgress;
}

// A lane has no use for these.
ncclResult_t ncclReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t,
                        cudaStream_t) {
  return ncclInvalidArgument;
}
ncclResult_t ncclBroadcast(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t,
                           cudaStream_t) {
  return ncclInvalidArgument;
}
ncclResult_t ncclSend(const void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) {
  return ncclInvalidArgument;
}
ncclResult_t ncclRecv(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) {
  return ncclInvalidArgument;
}
ncclResult_t ncclGroupStart() {
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  return ncclSuccess;
}
}
