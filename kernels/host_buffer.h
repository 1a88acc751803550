// Memory for backends that compute where the program runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace skerry {

inline constexpr int64_t kCacheLine = 64;  // bytes

// `floats` ≥ 0 zeros, beginning at a multiple of so many bytes, a power of two from kCacheLine on.
// ResourceExhausted when there is no such memory.
absl::StatusOr<std::unique_ptr<Buffer>> AllocateHostBuffer(int64_t floats,
                                                           int64_t border = kCacheLine);

// What such backends have in common.
class HostBackend : public Backend {
 public:
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t floats) final {
    return AllocateHostBuffer(floats);
  }
  bool is_host() const final { return true; }
  void Upload(std::span<const float> host, float* device) final {
    std::copy(host.begin(), host.end(), device);
  }
  void Download(const float* device, std::span<float> host) final {
    std::copy(device, device + host.size(), host.begin());
  }
  void Synchronize() final {}
};

}  // namespace skerry
