#include "wire/open_files.h"

#include <sys/resource.h>

#include <algorithm>

namespace skerry {

namespace {

// Beyond it nothing is gained, and programs that close "all" descriptors take for ever.
constexpr rlim_t kEnough = 65'536;

}  // namespace

void RaiseOpenFileLimit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = std::max(files.rlim_cur, std::min(files.rlim_max, kEnough));
  setrlimit(RLIMIT_NOFILE, &files);
}

size_t OpenFileLimit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return 1024;
  return static_cast<size_t>(std::min(files.rlim_cur, kEnough));
}

}  // namespace skerry
