#include "node/device_probe.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "common/status.h"
#include "kernels/group/device_threads.h"
#include "kernels/measure.h"
#include "kernels/plugin/gpu_backend.h"
#include "kernels/plugin/gpu_ways.h"
#include "pipeline/plan/node_memory.h"

namespace skerry {
namespace {

// Names the hardware: readings of equal devices are pooled by the planner.
std::string ProcessorModel() {
  std::ifstream in("/proc/cpuinfo");
  const std::string key = "model name";
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind(key, 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

std::string TextOf(const char* file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The number behind `key`, in units of what the line says; −1: there is none.
int64_t NumberAfter(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return -1;
  const std::string rest(text.substr(at + key.size(), 32));
  char* end = nullptr;
  const int64_t number = std::strtoll(rest.c_str(), &end, 10);
  return end == rest.c_str() ? -1 : number;
}

// The driver's list, which has those too that this process may not use; 0: there is none.
int64_t GpusOfComputer() {
  std::error_code error;
  const std::filesystem::directory_iterator listed("/proc/driver/nvidia/gpus", error);
  return error ? 0 : std::distance(begin(listed), end(listed));
}

int64_t HostMemoryInAll() {
  const int64_t all = AvailableMemory(TextOf("/proc/meminfo"), "MemTotal:");
  const int64_t limit = NumberAfter(TextOf("/sys/fs/cgroup/memory.max"), "");
  return limit < 0 ? all : std::min(all, limit);
}

}  // namespace

int64_t HostShare(int64_t free, int64_t all, int64_t gpus, int64_t gpus_of_computer) {
  if (gpus >= gpus_of_computer || all <= 0) return free;
  return std::min(free, all / gpus_of_computer * gpus);
}

int64_t AvailableMemory(std::string_view meminfo, std::string_view key) {
  return std::max<int64_t>(0, NumberAfter(meminfo, key)) * 1024;
}

int64_t LeftOfGroup(std::string_view max, std::string_view current, std::string_view stat) {
  const int64_t limit = NumberAfter(max, ""), held = NumberAfter(current, "");
  if (limit < 0 || held < 0) return INT64_MAX;
  const int64_t cache = std::max<int64_t>(0, NumberAfter(stat, "\nfile "));
  return std::max<int64_t>(0, limit - held + std::min(cache, held));
}

int64_t MemoryFree(Backend& backend) {
  const int64_t on_device = DeviceMemoryFree(backend);
  return on_device >= 0 ? on_device : HostMemoryFree();
}

int64_t HostMemoryFree() {
  int64_t available = AvailableMemory(TextOf("/proc/meminfo"));
  if (available == 0) available = int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return std::min(available, LeftOfGroup(TextOf("/sys/fs/cgroup/memory.max"),
                                         TextOf("/sys/fs/cgroup/memory.current"),
                                         TextOf("/sys/fs/cgroup/memory.stat")));
}

absl::StatusOr<DeviceProfile> ProbeDevice(const DeviceChoice& device) {
  DeviceProfile profile;
  {
    SKERRY_ASSIGN_OR_RETURN(const auto rounded, device.Create(DType::kBfloat16));
    if (rounded->compute_type() == DType::kBfloat16) profile.bf16_gflops = MeasureGflops(*rounded);
  }
  SKERRY_ASSIGN_OR_RETURN(const auto created, device.Create(DType::kFloat32));
  Backend& backend = *created;
  const int64_t on_device = DeviceMemoryFree(backend);
  profile.name = on_device >= 0 ? backend.name() : ProcessorModel() + ", " + backend.name();
  profile.numeric_profile = backend.numeric_profile();
  profile.gflops = MeasureGflops(backend);
  profile.memory_bytes = MemoryFree(backend);
  if (on_device >= 0) profile.host_bytes = HostMemoryFree();
  return profile;
}

TeamProfile TeamOf(std::vector<DeviceProfile> devices, std::span<const DeviceChoice> choices,
                   DeviceSplit split) {
  TeamProfile team;
  team.devices = std::move(devices);
  struct Kind {
    int count = 0;
    double gflops = 0;
  };
  std::map<std::string, Kind> kinds;
  const auto on_host = std::count_if(choices.begin(), choices.end(),
                                     [](const DeviceChoice& device) { return !device.gpu; });
  DeviceProfile& whole = team.whole;
  bool all_have_bf16 = true, all_equal = true;
  for (size_t i = 0; i < team.devices.size(); ++i) {
    const DeviceProfile& device = team.devices[i];
    const int64_t memory = device.memory_bytes / (choices[i].gpu ? 1 : on_host);
    whole.memory_bytes = i == 0 ? memory : std::min(whole.memory_bytes, memory);
    // Where the processor trains too nothing is told apart: its share of a stage is there as well.
    const int64_t host = on_host > 0 ? 0 : device.host_bytes;
    whole.host_bytes = i == 0 ? host : std::min(whole.host_bytes, host);
    whole.gflops += device.gflops;
    whole.bf16_gflops += device.bf16_gflops;
    all_have_bf16 = all_have_bf16 && device.bf16_gflops > 0;
    Kind& kind = kinds[device.name];
    ++kind.count;
    kind.gflops += device.gflops;
    whole.numeric_profile += (i == 0 ? "" : " + ") + device.numeric_profile;
    all_equal = all_equal && device.numeric_profile == team.devices.front().numeric_profile;
  }
  if (all_equal && team.devices.size() > 1) {
    whole.numeric_profile =
        TeamNumericProfile(team.devices.size(), team.devices.front().numeric_profile, split);
  }
  if (!all_have_bf16) whole.bf16_gflops = 0;
  for (const auto& [name, kind] : kinds) {
    whole.name += whole.name.empty() ? "" : " + ";
    whole.name += kind.count == 1 ? name : absl::StrFormat("%d × %s", kind.count, name);
  }
  for (const DeviceProfile& device : team.devices) {
    const Kind& kind = kinds[device.name];
    team.rates.push_back(std::max(kind.gflops / kind.count, 1e-3));
  }
  return team;
}

absl::StatusOr<TeamProfile> ProbeDevices(std::span<const DeviceChoice> devices, DeviceSplit split) {
  std::vector<DeviceProfile> profiles(devices.size());
  DeviceThreads threads(devices.size());
  SKERRY_RETURN_IF_ERROR(threads.RunAll([&](size_t i) -> absl::Status {
    SKERRY_ASSIGN_OR_RETURN(profiles[i], ProbeDevice(devices[i]));
    return absl::OkStatus();
  }));
  TeamProfile team = TeamOf(std::move(profiles), devices, split);
  if (split == DeviceSplit::kTensors && devices.size() > 1 &&
      AnnouncedSplit(team.whole) != DeviceSplit::kTensors) {
    return InvalidArgument(
        "--split tensors wants devices of one kind, and these are %s; choose such with --devices, "
        "or use --split sequences",
        team.whole.numeric_profile);
  }
  team.host_free = team.whole.host_bytes;
  team.whole.host_bytes =
      HostShare(team.host_free, HostMemoryInAll(), std::ssize(devices), GpusOfComputer());
  return team;
}

std::vector<std::string> WaysBetween(std::span<const DeviceChoice> devices) {
  struct Opened {
    int index = 0;
    std::unique_ptr<Backend> backend;
  };
  std::vector<Opened> gpus;
  for (const DeviceChoice& device : devices) {
    if (!device.gpu) continue;
    auto backend = device.Create();
    if (backend.ok()) gpus.push_back({device.index, *std::move(backend)});
  }
  std::vector<std::string> ways;
  for (size_t a = 0; a < gpus.size(); ++a) {
    for (size_t b = a + 1; b < gpus.size(); ++b) {
      const auto way = MeasureWay(*gpus[a].backend, *gpus[b].backend);
      if (!way.ok()) continue;
      ways.push_back(
          absl::StrFormat("cuda:%d to cuda:%d %s", gpus[a].index, gpus[b].index, WayText(*way)));
    }
  }
  return ways;
}

std::string RatesText(const DeviceProfile& profile) {
  const std::string text = absl::StrFormat("%.0f GFLOP/s in float32", profile.gflops);
  if (profile.bf16_gflops == 0) return text + ", no bf16";
  return text + absl::StrFormat(", %.0f in bf16", profile.bf16_gflops);
}

}  // namespace skerry
