// Which device a node computes on, or which ones, and why.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

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

inline constexpr size_t kDevicesMax = 64;

// The devices of `list`: "all" is every GPU that works, or the CPU where there is none; else
// "cuda:0", "cuda:1", … and "cpu", with commas between, in the order in which they share a
// microbatch. A GPU comes once; the CPU as often as its `threads` are to be cut into equal parts.
// GPUs of `failed` are left out of a list. An empty one is ChooseDevice's device. InvalidArgument:
// it is no such list. Unavailable: a GPU that it names does not work, or all have failed.
absl::StatusOr<std::vector<DeviceChoice>> ChooseDevices(const std::string& list, DeviceWish wish,
                                                        int threads,
                                                        const std::set<int>& failed = {});

// "the GPU: there is one that works", "cuda:0, cuda:1: all GPUs that work"
std::string DevicesText(std::span<const DeviceChoice> devices);

}  // namespace skerry
