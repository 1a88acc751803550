#include "bench/counted_heap.h"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* memory);
}

namespace skerry {
namespace {

std::atomic<int64_t> held{0};
std::atomic<int64_t> peak{0};

void* Counted(void* memory) {
  if (memory == nullptr) return nullptr;
  const auto bytes = static_cast<int64_t>(malloc_usable_size(memory));
  const int64_t now = held.fetch_add(bytes) + bytes;
  int64_t before = peak.load();
  while (now > before && !peak.compare_exchange_weak(before, now)) {
  }
  return memory;
}

void Uncount(void* memory) {
  if (memory != nullptr) held.fetch_sub(static_cast<int64_t>(malloc_usable_size(memory)));
}

}  // namespace

int64_t HeapBytes() {
  return held.load();
}
int64_t HeapBytesPeak() {
  return peak.load();
}
void ResetHeapPeak() {
  peak.store(held.load());
}

}  // namespace skerry

extern "C" {

void* malloc(size_t size) {
  return skerry::Counted(__libc_malloc(size));
}
void* calloc(size_t count, size_t size) {
  return skerry::Counted(__libc_calloc(count, size));
}
void* realloc(void* memory, size_t size) {
  const auto before = memory == nullptr ? 0 : static_cast<int64_t>(malloc_usable_size(memory));
  void* const moved = __libc_realloc(memory, size);
  if (moved != nullptr || size == 0) skerry::held.fetch_sub(before);
  return skerry::Counted(moved);
}
void* memalign(size_t alignment, size_t size) {
  return skerry::Counted(__libc_memalign(alignment, size));
}
void* aligned_alloc(size_t alignment, size_t size) {
  return skerry::Counted(__libc_memalign(alignment, size));
}
int posix_memalign(void** out, size_t alignment, size_t size) {
  void* const memory = skerry::Counted(__libc_memalign(alignment, size));
  if (memory == nullptr) return ENOMEM;
  *out = memory;
  return 0;
}
void free(void* memory) {
  skerry::Uncount(memory);
  __libc_free(memory);
}

}  // extern "C"
