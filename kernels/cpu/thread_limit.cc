#include "kernels/cpu/thread_limit.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace skerry {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

int TheSmaller(int limit, int other) {
  return other == 0 ? limit : std::min(limit, other);
}

// Of the group at `path` and all above it.
int UnifiedQuota(std::string path, int limit) {
  while (true) {
    limit = TheSmaller(limit, ProcessorsOfQuota(FirstLine("/sys/fs/cgroup" + path + "/cpu.max")));
    if (path.empty() || path == "/") return limit;
    path.resize(path.rfind('/'));
  }
}

int FirstVersionQuota(const std::string& path, int limit) {
  for (const std::string& group :
       {"/sys/fs/cgroup/cpu" + path, std::string("/sys/fs/cgroup/cpu")}) {
    const std::string quota = FirstLine(group + "/cpu.cfs_quota_us");
    const std::string period = FirstLine(group + "/cpu.cfs_period_us");
    limit = TheSmaller(limit, ProcessorsOfQuota(quota + " " + period));
  }
  return limit;
}

}  // namespace

int ProcessorsOfQuota(const std::string& cpu_max) {
  std::istringstream in(cpu_max);
  double quota = 0, period = 0;
  if (!(in >> quota >> period) || quota <= 0 || period <= 0) return 0;
  const double processors = quota / period;
  if (processors > 1e6) return 0;
  const int whole = static_cast<int>(processors);
  return whole < processors ? whole + 1 : whole;
}

int BoundedThreads(int wanted) {
  const int usable = UsableThreads();
  return wanted == 0 ? usable : std::min(wanted, usable);
}

int UsableThreads() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  int limit = 1;
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) limit = std::max(1, CPU_COUNT(&mask));
  // "0::/a/b" of version 2; "4:cpu,cpuacct:/a/b" of version 1.
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") limit = UnifiedQuota(path, limit);
    if (controllers.find(",cpu,") != std::string::npos) limit = FirstVersionQuota(path, limit);
  }
  return std::max(1, limit);
}

}  // namespace skerry
