#include "node/doctor_program.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "common/status.h"
#include "kernels/cpu/thread_limit.h"
#include "node/device_choice.h"
#include "node/device_probe.h"
#include "node/join_program.h"
#include "node/own_addresses.h"

namespace skerry {
namespace {

void Describe(const char* kind, const DeviceProfile& profile) {
  std::printf("%-10s %s\n", kind, profile.name.c_str());
  std::printf("           %s; %.1f GiB of memory free now\n", RatesText(profile).c_str(),
              static_cast<double>(profile.memory_bytes) / (1 << 30));
  std::printf("           same results as devices that say: %s\n", profile.numeric_profile.c_str());
}

// Every GPU that works; of the first that does not, why.
absl::Status DescribeGpus() {
  for (int index = 0;; ++index) {
    const auto profile = ProbeDevice({.gpu = true, .index = index, .why = ""});
    if (!profile.ok()) return index == 0 ? profile.status() : absl::OkStatus();
    Describe("GPU", *profile);
  }
}

// Only somebody outside can tell whether this machine can be dialled: a coordinator did, at the
// last join.
void DescribeNetwork(const std::string& home) {
  std::string own;
  for (const std::string& address : OwnAddresses()) own += (own.empty() ? "" : ", ") + address;
  std::printf("network    addresses of this machine: %s\n", own.empty() ? "none" : own.c_str());
  std::ifstream file(std::filesystem::path(home) / kReachFile);
  if (!file) {
    std::printf(
        "           whether others can dial it shows when it joins a run; behind a router that "
        "lets "
        "nothing in it takes part too\n");
    return;
  }
  std::printf("           as the coordinator of the last run found:\n");
  for (std::string line; std::getline(file, line);) std::printf("           %s\n", line.c_str());
}

}  // namespace

int Doctor(int threads, const std::string& home) {
  const DeviceChoice cpu = {.threads = BoundedThreads(threads), .why = ""};
  const auto profile = ProbeDevice(cpu);
  if (!profile.ok()) {
    std::fprintf(stderr, "skerry-node: %s\n", ErrorText(profile.status()).c_str());
    return 1;
  }
  Describe("processor", *profile);
  const absl::Status no_gpu = DescribeGpus();
  if (!no_gpu.ok()) std::printf("GPU        none in use: %s\n", ErrorText(no_gpu).c_str());
  DescribeNetwork(home);
  const auto choice = ChooseDevice(DeviceWish::kAuto, cpu.threads);
  if (!choice.ok()) return 1;
  std::printf("ready      `skerry-node join TICKET` would train on the %s%s\n",
              choice->gpu ? "GPU" : "processor",
              choice->gpu ? "" : ", which needs nothing more; --threads bounds it");
  return 0;
}

}  // namespace skerry
