#include "common/parallel.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace skerry {

void InParallel(size_t count, size_t threads_max, const std::function<void(size_t)>& work) {
  const auto processors = static_cast<size_t>(std::max(1u, std::thread::hardware_concurrency()));
  const size_t members = std::min({count, processors, threads_max});
  std::atomic<size_t> next = 0;
  const auto take = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> others;
  try {
    while (others.size() + 1 < members) others.emplace_back(take);
  } catch (const std::system_error&) {  // as many as the system lets us have
  }
  take();
  for (std::thread& other : others) other.join();
}

}  // namespace skerry
