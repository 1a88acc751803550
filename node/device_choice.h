// Which device a node computes on, and why.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace skerry {

enum class DeviceWish { kAuto, kCpu, kCuda };

struct DeviceChoice {
  bool gpu = false;
  int index = 0;    // of the GPU
  int threads = 1;  // of the CPU
  std::string why;  // a sentence for people

  // A backend of the chosen device, for products of this type; each call another one.
  absl::StatusOr<std::unique_ptr<Backend>> Create(DType compute = DType::kFloat32) const;
};

// kAuto: the first GPU that works, else the CPU with `threads`. Unavailable, and why: kCuda was
// wished for and there is none.
absl::StatusOr<DeviceChoice> ChooseDevice(DeviceWish wish, int threads);

}  // namespace skerry
