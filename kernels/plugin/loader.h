// Finds and opens the GPU plug-in at run time, and says what it looked for when there is none.
//
// Without an NVIDIA driver nothing but the search for libcuda.so.1 happens (a fraction of a
// millisecond), so a program may always ask.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/plugin/table.h"

namespace skerry {

struct GpuPluginSearch {
  // What must be loadable first; "" for nothing.
  std::string driver = "libcuda.so.1";
  // Tried in order.
  std::vector<std::string> paths;
};

// $SKERRY_CUDA_PLUGIN alone where it is set, whatever the driver; else libskerry_cuda.so beside the
// program, then in ../lib/skerry of it.
GpuPluginSearch DefaultGpuSearch();

// The plug-in's table; it stays loaded as long as the program runs. Unavailable, and why: no
// driver, no library (names all that were tried), one that does not load (the linker's words), one
// that is no plug-in of ours, or one of another version.
absl::StatusOr<const GpuTable*> LoadGpuTable(const GpuPluginSearch& search);

}  // namespace skerry
