// Bugs. A CHECK is always on: a broken invariant ends the process at once, with the place and the
// reason.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace skerry {

[[noreturn]] inline void CheckFailed(const char* file, int line, const char* expression,
                                     const char* why) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s%s%s\n", file, line, expression,
               why[0] ? ": " : "", why);
  std::fflush(stderr);
  std::abort();
}

}  // namespace skerry

// SKERRY_CHECK(condition) or SKERRY_CHECK(condition, "why it must hold"). The file's name without
// its path, which is another one where ccache compiles: programs are to be the same bytes.
#define SKERRY_CHECK(condition, ...)                                              \
  do {                                                                            \
    if (!(condition)) {                                                           \
      ::skerry::CheckFailed(__FILE_NAME__, __LINE__, #condition, "" __VA_ARGS__); \
    }                                                                             \
  } while (false)
