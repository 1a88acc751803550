#include "node/gpu_watch_program.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "common/status.h"

namespace skerry {
namespace {

// What is used of nvml.h, as NVIDIA documents it; the names are ours.
using Device = void*;
constexpr int kOk = 0, kNothing = 6 /* no sample since */, kTooSmall = 7;
struct ProcessSample {
  unsigned int process;
  unsigned long long at_us;
  unsigned int compute_percent, memory_percent, encoder_percent, decoder_percent;
};

class Driver {
 public:
  static Driver& Get() {
    static Driver driver;
    return driver;
  }

  absl::StatusOr<double> OthersShare() {
    if (!why_.empty()) return Unavailable("%s", why_);
    double most = 0;
    for (size_t i = 0; i < devices_.size(); ++i) {
      SKERRY_ASSIGN_OR_RETURN(const double share, OthersShare(devices_[i], &seen_us_[i]));
      most = std::max(most, share);
    }
    return most;
  }

 private:
  Driver() { why_ = Open(); }  // after what it fills began

  // Why it cannot say; "" if it can.
  std::string Open() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return "there is no libnvidia-ml.so.1 (NVIDIA's driver)";
    const auto find = [&](const char* name, auto& function) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    int (*begin)() = nullptr;
    int (*count_of)(unsigned int*) = nullptr;
    int (*device_at)(unsigned int, Device*) = nullptr;
    if (!find("nvmlInit_v2", begin) || !find("nvmlDeviceGetCount_v2", count_of) ||
        !find("nvmlDeviceGetHandleByIndex_v2", device_at) ||
        !find("nvmlDeviceGetProcessUtilization", samples_)) {
      return "the driver is too old to say";
    }
    unsigned int count = 0;
    if (begin() != kOk || count_of(&count) != kOk) return "the driver does not answer";
    for (unsigned int i = 0; i < count; ++i) {
      Device device = nullptr;
      if (device_at(i, &device) == kOk) devices_.push_back(device);
    }
    seen_us_.resize(devices_.size());
    return "";
  }

  absl::StatusOr<double> OthersShare(Device device, unsigned long long* seen_us) {
    unsigned int count = 0;
    int said = samples_(device, nullptr, &count, *seen_us);
    if (said == kNothing || (said == kOk && count == 0)) return 0.0;
    if (said != kTooSmall && said != kOk) return Unavailable("NVML says %d", said);
    std::vector<ProcessSample> samples(count);
    said = samples_(device, samples.data(), &count, *seen_us);
    if (said == kNothing) return 0.0;
    if (said != kOk) return Unavailable("NVML says %d", said);
    samples.resize(std::min<size_t>(count, samples.size()));
    // The newest of each process; there are several of some.
    std::map<unsigned int, ProcessSample> newest;
    for (const ProcessSample& sample : samples) {
      ProcessSample& known = newest.try_emplace(sample.process, sample).first->second;
      if (sample.at_us > known.at_us) known = sample;
      *seen_us = std::max(*seen_us, sample.at_us);
    }
    double share = 0;
    bool sees_any = newest.empty();
    for (const auto& [process, sample] : newest) {
      const bool seen = access(("/proc/" + std::to_string(process)).c_str(), F_OK) == 0;
      sees_any |= seen;
      if (seen && !IsOwn(static_cast<pid_t>(process))) share += 0.01 * sample.compute_percent;
    }
    if (!sees_any) return Unavailable("processes of other containers cannot be told from this one");
    return std::min(share, 1.0);
  }

  // This process, or one that it started.
  static bool IsOwn(pid_t process) {
    constexpr int kDepthMax = 16;
    for (int depth = 0; depth < kDepthMax && process > 1; ++depth) {
      if (process == getpid()) return true;
      std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
      std::string line;
      std::getline(stat, line);
      const size_t name_ends = line.rfind(')');
      int parent = 0;
      if (name_ends == std::string::npos ||
          std::sscanf(line.c_str() + name_ends, ") %*c %d", &parent) != 1) {
        return false;
      }
      process = parent;
    }
    return false;
  }

  // Set by Open, and so before why_.
  int (*samples_)(Device, ProcessSample*, unsigned int*, unsigned long long) = nullptr;
  std::vector<Device> devices_;
  std::vector<unsigned long long> seen_us_;
  std::string why_;
};

}  // namespace

absl::StatusOr<double> OthersGpuShare() {
  return Driver::Get().OthersShare();
}

}  // namespace skerry
