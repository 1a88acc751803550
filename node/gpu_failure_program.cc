#include "node/gpu_failure_program.h"

#include <linux/close_range.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "common/cli_program.h"
#include "common/own_program.h"
#include "common/status.h"
#include "kernels/plugin/gpu_backend.h"
#include "node/desk_program.h"
#include "node/say.h"

namespace skerry {
namespace {

constexpr char kFailed[] = "SKERRY_FAILED_GPUS";  // "1 3"
constexpr char kWhy[] = "SKERRY_GPU_FAILURE";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns only if it cannot be done.
void StartAnew() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::string words{std::istreambuf_iterator<char>(in), {}};
  std::vector<char*> command;
  for (size_t at = 0; at < words.size(); at = words.find('\0', at) + 1)
    command.push_back(words.data() + at);
  command.push_back(nullptr);
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);  // threads that compute take no signals
  close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  ExecuteItself(command.data());
}

}  // namespace

std::set<int> FailedGpus() {
  std::istringstream in(Environment(kFailed));
  return {std::istream_iterator<int>(in), {}};
}

std::string LastGpuFailure() {
  return Environment(kWhy);
}

void JoinAnewWithoutFailedGpu(std::span<const DeviceChoice> devices) {
  const bool has_others = devices.size() > 1;
  OnGpuFailure([has_others](int index, const std::string& why) {
    GiveTerminalBack();
    const std::string failure = absl::StrFormat("cuda:%d has failed: %s", index, why);
    std::string end = "there is no other device";
    if (has_others) {
      setenv(kFailed, (Environment(kFailed) + " " + std::to_string(index)).c_str(), 1);
      setenv(kWhy, failure.c_str(), 1);
      StartAnew();
      end = std::string("the node cannot be started anew: ") + std::strerror(errno);
    }
    const absl::Status status = Unavailable("%s, and %s [SK-gpu-failed]", failure, end);
    if (!SayError(status)) EndedWith("skerry-node", status);
    _exit(1);
  });
}

}  // namespace skerry
