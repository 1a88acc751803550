// Counts every byte that a program takes from the heap: linking this replaces malloc and its family
// (the C library's own do the work), so vectors, the buffers of backends and what oneDNN takes for
// itself all count, at the size the allocator really gave.
//
// Any thread. For tests and benchmarks only; sanitizers bring allocators of their own.
#pragma once

#include <cstdint>

namespace skerry {

int64_t HeapBytes();      // held now
int64_t HeapBytesPeak();  // the most held since the last ResetHeapPeak
void ResetHeapPeak();

}  // namespace skerry
