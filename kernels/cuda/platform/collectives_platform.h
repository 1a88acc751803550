// What groups ask of their platform: NCCL's types, and whether a stream has done all it was given.
// tests/cuda_on_host has a second file of this name.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

namespace skerry::cuda {

inline bool IsIdle(cudaStream_t stream) {
  return cudaStreamQuery(stream) != cudaErrorNotReady;
}

inline ncclConfig_t NonBlocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

}  // namespace skerry::cuda
