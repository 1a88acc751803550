#include "common/large_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace skerry {

void WantLargePages(void* begin, size_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto from = (reinterpret_cast<uintptr_t>(begin) + page - 1) / page * page;
  const auto to = (reinterpret_cast<uintptr_t>(begin) + bytes) / page * page;
  if (to > from)
    static_cast<void>(madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE));
}

}  // namespace skerry
