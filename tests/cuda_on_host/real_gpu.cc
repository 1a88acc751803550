// The tests of the CUDA text, on a GPU of this machine: the same cases, by the plug-in that
// programs use. Without a GPU nothing is run, and the program says why and ends with 77.
//
// What operator new gives is memory that the GPU reaches too, so tests need no copies: managed
// memory, or where processor and GPU may not use that at once, pinned memory of the host. Launches
// block, so that a test may read what an operation made.
#define CATCH_CONFIG_RUNNER
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "kernels/plugin/loader.h"
#include "tests/cuda_on_host/gpu_under_test.h"

namespace skerry {
namespace {

constexpr int kNothingRun = 77;
constexpr size_t kArenaBytes = size_t{2} << 30;

// Blocks of powers of two; what was given back is given again. Until it has memory: malloc's.
class Arena {
 public:
  void Begin(char* memory) { begin_ = next_ = memory; }
  void* Take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (begin_ == nullptr) return std::malloc(bytes);
    const size_t kind = std::bit_width(std::max<size_t>(bytes, kLeast) - 1);
    if (Free* first = free_[kind]; first != nullptr) {
      free_[kind] = first->next;
      return first;
    }
    const size_t size = size_t{1} << kind;
    if (size > kArenaBytes - static_cast<size_t>(next_ - begin_)) return nullptr;
    return std::exchange(next_, next_ + size);
  }
  void Give(void* memory, size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto* at = static_cast<char*>(memory);
    if (begin_ == nullptr || at < begin_ || at >= begin_ + kArenaBytes) return std::free(memory);
    const size_t kind = std::bit_width(std::max<size_t>(bytes, kLeast) - 1);
    free_[kind] = new (memory) Free{free_[kind]};
  }

 private:
  struct Free {
    Free* next;
  };
  static constexpr size_t kLeast = 256;  // as CUDA aligns what it gives
  std::mutex mutex_;
  char *begin_ = nullptr, *next_ = nullptr;
  Free* free_[64] = {};
};

Arena& TheArena() {
  static Arena* arena = new (std::malloc(sizeof(Arena))) Arena;  // outlives all that it gave
  return *arena;
}

// The driver's functions, as cuda.h declares them.
struct Driver {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  template <typename... A>
  bool Call(const char* name, A... arguments) const {
    auto* function =
        library == nullptr ? nullptr : reinterpret_cast<int (*)(A...)>(dlsym(library, name));
    return function != nullptr && function(arguments...) == 0;
  }
};

// Without a driver (the plug-in is that of fibers) any memory will do. nullptr: there is none.
void* SharedMemory() {
  const Driver driver;
  constexpr int kConcurrentManagedAccess = 89;  // CU_DEVICE_ATTRIBUTE_…
  constexpr unsigned kAttachGlobal = 1, kPortable = 1, kDeviceMap = 2;
  if (driver.library == nullptr) return std::malloc(kArenaBytes);
  int device = 0, concurrent = 0;
  void *context = nullptr, *memory = nullptr;
  if (!driver.Call("cuInit", 0U) || !driver.Call("cuDeviceGet", &device, 0) ||
      !driver.Call("cuDevicePrimaryCtxRetain", &context, device) ||
      !driver.Call("cuCtxSetCurrent", context))
    return nullptr;
  driver.Call("cuDeviceGetAttribute", &concurrent, kConcurrentManagedAccess, device);
  const bool given =
      concurrent != 0 ? driver.Call("cuMemAllocManaged", &memory, kArenaBytes, kAttachGlobal)
                      : driver.Call("cuMemHostAlloc", &memory, kArenaBytes, kPortable | kDeviceMap);
  return given ? memory : nullptr;
}

}  // namespace

const GpuTable& TestGpuTable() {
  static const GpuTable& table = **LoadGpuTable(DefaultGpuSearch());
  return table;
}

void OrderThreads(uint64_t) {}

}  // namespace skerry

// The size stands before the block, a whole alignment away.
constexpr size_t kBefore = 256;

void* operator new(size_t bytes) {
  auto* memory = static_cast<char*>(skerry::TheArena().Take(bytes + kBefore));
  SKERRY_CHECK(memory != nullptr, "the arrays of a test fit into the arena");
  new (memory) size_t{bytes};
  return memory + kBefore;
}
void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  auto* block = static_cast<char*>(memory) - kBefore;
  skerry::TheArena().Give(block, *std::launder(reinterpret_cast<size_t*>(block)) + kBefore);
}
void operator delete(void* memory, size_t) noexcept {
  operator delete(memory);
}

int main(int argc, char** argv) {
  setenv("CUDA_LAUNCH_BLOCKING", "1", 0);  // 0: for cases that wait for what they read
  Catch::Session session;
  if (const int wrong = session.applyCommandLine(argc, argv); wrong != 0) return wrong;
  const auto& config = session.configData();
  if (config.listTests || config.listTags || config.listTestNamesOnly || config.listReporters)
    return session.run();
  const auto gpu = skerry::CreateCudaBackend(0);
  if (!gpu.ok()) {
    std::printf("no GPU, so nothing was run: %s\n", skerry::ErrorText(gpu.status()).c_str());
    return skerry::kNothingRun;
  }
  std::printf("%s\n", (*gpu)->name().c_str());
  void* memory = skerry::SharedMemory();
  if (memory == nullptr) {
    std::printf("no memory that processor and GPU both reach\n");
    return 1;
  }
  skerry::TheArena().Begin(static_cast<char*>(memory));
  return session.run() == 0 ? 0 : 1;
}
