// What a device was given until now, for a thread that waits for it beside the one that owns it.
#pragma once

#include <utility>

#include "kernels/backend.h"
#include "kernels/plugin/gpu_backend.h"

namespace skerry {

// The backend outlives it. Of anything but a GPU it is nothing: that has done what it was given.
class DeviceMark {
 public:
  DeviceMark() = default;
  explicit DeviceMark(Backend& backend);  // by the thread that owns the backend
  ~DeviceMark() { Await(); }
  DeviceMark(DeviceMark&& other) noexcept { *this = std::move(other); }
  DeviceMark& operator=(DeviceMark&& other) noexcept;

  // Any thread, one at a time. The device's failures are the next Synchronize's to tell.
  void Await();

 private:
  GpuHandle gpu_;
  GpuMark* mark_ = nullptr;
};

}  // namespace skerry
