// The program that runs, executed again in its own place.
#pragma once

namespace skerry {

// Under its own path, so that it keeps its name in lists of processes; through /proc/self/exe where
// its file has been replaced. Returns only if it cannot be done. `argv` ends in null.
void ExecuteItself(char* const* argv);

}  // namespace skerry
