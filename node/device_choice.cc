#include "node/device_choice.h"

#include "common/status.h"

namespace skerry {

absl::StatusOr<std::unique_ptr<Backend>> DeviceChoice::Create(DType compute) const {
  if (gpu) return CreateCudaBackend(index, compute);
  return CreateCpuBackend(threads, compute);
}

absl::StatusOr<DeviceChoice> ChooseDevice(DeviceWish wish, int threads) {
  DeviceChoice choice;
  choice.threads = threads;
  if (wish == DeviceWish::kCpu) {
    choice.why = "the CPU was asked for";
    return choice;
  }
  const auto gpu = CreateCudaBackend(choice.index);
  if (gpu.ok()) {
    choice.gpu = true;
    choice.why = wish == DeviceWish::kCuda ? "a GPU was asked for" : "there is a GPU that works";
    return choice;
  }
  if (wish == DeviceWish::kCuda) return gpu.status();
  choice.why = ErrorText(gpu.status());
  return choice;
}

}  // namespace skerry
