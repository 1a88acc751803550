// A plug-in of another version.
#include "kernels/plugin/table.h"

extern "C" const skerry::GpuTable* skerry_gpu_table(uint32_t wanted) {
  static skerry::GpuTable table;
  table.version = wanted + 1;
  table.bytes = sizeof(table);
  return &table;
}
