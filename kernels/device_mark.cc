#include "kernels/device_mark.h"

namespace skerry {

DeviceMark::DeviceMark(Backend& backend) : gpu_(GpuOf(backend)) {
  if (gpu_.table != nullptr) mark_ = gpu_.table->mark(gpu_.device);
}

DeviceMark& DeviceMark::operator=(DeviceMark&& other) noexcept {
  Await();
  gpu_ = other.gpu_;
  mark_ = std::exchange(other.mark_, nullptr);
  return *this;
}

void DeviceMark::Await() {
  if (mark_ != nullptr) gpu_.table->await_mark(gpu_.device, std::exchange(mark_, nullptr));
}

}  // namespace skerry
