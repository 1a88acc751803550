// Work that falls apart into pieces, on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace skerry {

// Calls work(0) … work(count − 1), each once, on this thread and others, `threads_max` in all and
// one for each of the machine's processors at most, fewer where the system gives no more; returns
// when all are done. Pieces begin in order. `work` must be fit for several threads, and what it
// leaves behind must not depend on who does what.
void InParallel(size_t count, size_t threads_max, const std::function<void(size_t)>& work);

}  // namespace skerry
