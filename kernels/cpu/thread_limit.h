// How many threads this process may use.
#pragma once

#include <string>

namespace skerry {

// Processors of the affinity mask, bounded by the CPU quota of the process' cgroups (version 2, and
// version 1 where it is mounted): at least 1. libgomp knows the mask and not the quota.
int UsableThreads();

// `wanted` threads, or all usable ones for 0; never more than are usable.
int BoundedThreads(int wanted);

// A quota of "max", or "200000 100000" in microseconds, as processors, rounded up; 0: no limit, or
// not readable as one.
int ProcessorsOfQuota(const std::string& cpu_max);

}  // namespace skerry
