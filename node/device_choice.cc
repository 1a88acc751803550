#include "node/device_choice.h"

#include <algorithm>
#include <sstream>

#include "common/status.h"
#include "kernels/plugin/gpu_backend.h"

namespace skerry {
namespace {

// Every GPU that works; in `why` also those that do not.
std::vector<DeviceChoice> AllGpus(int threads, const std::set<int>& failed) {
  std::string why = "all GPUs that work";
  std::vector<DeviceChoice> all;
  const int count = UsableGpus();
  for (int index = 0; index < count && all.size() < kDevicesMax; ++index) {
    const absl::Status works =
        failed.contains(index) ? Unavailable("it has failed") : CreateCudaBackend(index).status();
    if (works.ok()) {
      all.push_back({true, index, threads, ""});
    } else {
      why += absl::StrFormat("; not cuda:%d: %s", index, ErrorText(works));
    }
  }
  for (DeviceChoice& device : all) device.why = why;
  return all;
}

absl::StatusOr<DeviceChoice> Listed(const std::string& name, int threads) {
  DeviceChoice device{false, 0, threads, "as asked for"};
  if (name == "cpu") return device;
  constexpr const char* kGpu = "cuda:";
  const std::string number = name.rfind(kGpu, 0) == 0 ? name.substr(5) : "";
  const bool is_number =
      !number.empty() && number.size() <= 2 &&
      std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!is_number) {
    return InvalidArgument("--devices: %s is no device; all, or some of cuda:0, cuda:1, cpu",
                           name.empty() ? "nothing" : name);
  }
  device.gpu = true;
  device.index = std::stoi(number);
  return device;
}

}  // namespace

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
  auto gpu = CreateCudaBackend(choice.index);
  const absl::Status first = gpu.status();
  const int count = gpu.ok() ? 0 : UsableGpus();
  while (!gpu.ok() && choice.index + 1 < count) gpu = CreateCudaBackend(++choice.index);
  if (gpu.ok()) {
    choice.gpu = true;
    choice.why = wish == DeviceWish::kCuda ? "a GPU was asked for" : "there is a GPU that works";
    return choice;
  }
  if (wish == DeviceWish::kCuda) return first;
  choice.why = ErrorText(first);
  return choice;
}

absl::StatusOr<std::vector<DeviceChoice>> ChooseDevices(const std::string& list, DeviceWish wish,
                                                        int threads, const std::set<int>& failed) {
  std::vector<DeviceChoice> devices;
  if (list == "all") {
    devices = AllGpus(threads, failed);
    if (!devices.empty()) return devices;
  }
  if (list.empty() || list == "all") {
    SKERRY_ASSIGN_OR_RETURN(devices.emplace_back(), ChooseDevice(wish, threads));
    return devices;
  }
  std::istringstream names(list + ",");
  for (std::string name; std::getline(names, name, ',');) {
    SKERRY_ASSIGN_OR_RETURN(const DeviceChoice device, Listed(name, threads));
    for (const DeviceChoice& other : devices) {
      if (device.gpu && other.gpu && device.index == other.index) {
        return InvalidArgument("--devices: %s comes twice", name);
      }
    }
    devices.push_back(device);
    if (devices.size() > kDevicesMax) {
      return InvalidArgument("--devices: more than %d of them", kDevicesMax);
    }
  }
  std::erase_if(devices, [&failed](const DeviceChoice& device) {
    return device.gpu && failed.contains(device.index);
  });
  if (devices.empty()) return Unavailable("--devices: all GPUs of %s have failed", list);
  const auto cpus = std::count_if(devices.begin(), devices.end(),
                                  [](const DeviceChoice& device) { return !device.gpu; });
  for (DeviceChoice& device : devices) {
    if (device.gpu) SKERRY_RETURN_IF_ERROR(CreateCudaBackend(device.index).status());
    if (!device.gpu) device.threads = std::max(1, threads / static_cast<int>(cpus));
  }
  return devices;
}

std::string DevicesText(std::span<const DeviceChoice> devices) {
  if (devices.size() == 1) return (devices[0].gpu ? "the GPU: " : "the CPU: ") + devices[0].why;
  std::string text;
  for (const DeviceChoice& device : devices) {
    text += text.empty() ? "" : ", ";
    text += device.gpu ? absl::StrFormat("cuda:%d", device.index) : std::string("cpu");
  }
  return text + ": " + devices[0].why;
}

}  // namespace skerry
