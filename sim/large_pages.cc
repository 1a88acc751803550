#include "sim/large_pages.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace skerry {
namespace {

constexpr int kHeapBytes = 1 << 30;
constexpr int kMappedBytesMax = 32 << 20;  // the most that mallopt takes
constexpr uintptr_t kPageBytes = 4096;
constexpr size_t kProbeBytes = 1 << 20;  // more than the heap has left

}  // namespace

void UseLargePages() {
  // One heap, grown at once by a gigabyte of addresses, and never given back in part: memory itself
  // comes page by page, as it is touched.
  mallopt(M_MMAP_THRESHOLD, kMappedBytesMax);
  mallopt(M_TRIM_THRESHOLD, kHeapBytes);
  mallopt(M_TOP_PAD, kHeapBytes);
  void* probe = std::malloc(kProbeBytes);
  const auto from = (reinterpret_cast<uintptr_t>(probe) + kPageBytes - 1) & ~(kPageBytes - 1);
  const auto to = reinterpret_cast<uintptr_t>(sbrk(0)) & ~(kPageBytes - 1);
  std::free(probe);
  if (probe == nullptr || to <= from) return;
  (void)madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE);
}

}  // namespace skerry
