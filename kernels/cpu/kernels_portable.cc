#include "kernels/cpu/lanes_portable.h"
// Lanes first: the bodies are written over them.
#include "kernels/cpu/body/table.h"

namespace skerry {

constexpr KernelTable kPortableKernels = TableNamed("portable", nullptr, nullptr, nullptr);

}  // namespace skerry
