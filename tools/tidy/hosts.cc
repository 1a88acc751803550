#include <initializer_list>

#include "tools/tidy/rules.h"

namespace skerry::tidy {
namespace {

constexpr std::string_view kClocks[] = {"system_clock",  "steady_clock", "high_resolution_clock",
                                        "clock_gettime", "gettimeofday", "utc_clock",
                                        "std::time(",    "time(nullptr)"};
constexpr std::string_view kSleeps[] = {"sleep_for", "sleep_until", "usleep", "nanosleep",
                                        "sleep("};
constexpr std::string_view kThreads[] = {
    "std::thread", "std::jthread",      "std::async",
    "std::mutex",  "std::shared_mutex", "std::condition_variable",
    "std::atomic", "pthread_create",    "thread_local"};
constexpr std::string_view kChance[] = {"std::random_device", "std::mt19937", "std::rand",
                                        "std::shuffle", "srand"};

// Written with escapes, so that this file passes its own rule.
constexpr std::string_view kPlaces[] = {"_\137FILE__", "_\137BASE_FILE__", "_\137DATE__",
                                        "_\137TIME__"};

bool IsHostFloor(std::string_view path) {
  const bool message = path.starts_with("wire/message/") || path == "wire/actor.h" ||
                       path.starts_with("wire/courier.");
  return path.starts_with("common/") || path.starts_with("kernels/") ||
         (path.starts_with("wire/") && !message) || IsProgramFile(path);
}

template <size_t n>
void Forbid(const Source& source, const std::vector<std::string>& lines,
            const std::string_view (&words)[n], const std::string& rule, const std::string& advice,
            Findings& findings) {
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const std::string_view word : words) {
      if (!HasWord(lines[i], word)) continue;
      findings.push_back(
          {source.path, static_cast<int>(i) + 1, rule, std::string(word) + ": " + advice});
    }
  }
}

template <size_t n>
void Forbid(const Source& source, const std::string_view (&words)[n], const std::string& rule,
            const std::string& advice, Findings& findings) {
  Forbid(source, source.code, words, rule, advice, findings);
}

}  // namespace

void CheckHosts(const Source& source, Findings& findings) {
  static constexpr std::string_view kThrow[] = {"throw"};
  Forbid(source, kThrow, "errors", "our code returns absl::Status, or CHECKs a bug", findings);
  for (size_t i = 0; i < source.lines.size(); ++i) {
    const std::string& line = source.lines[i];
    if (line.starts_with("TEST_CASE(\"") && line.find(';') != std::string::npos)
      findings.push_back({source.path, static_cast<int>(i) + 1, "builds",
                          "a test with ; in its name is two tests to CTest"});
  }
  // Macros too.
  if (!source.code.empty()) {
    Forbid(source, source.lines, kPlaces, "builds",
           "programs are the same bytes wherever and whenever they are built; a file has a name",
           findings);
  }
  if (source.path.starts_with("tests/")) {
    Forbid(source, kSleeps, "tests", "a test waits for an event, never for time", findings);
    Forbid(source, kClocks, "tests", "a test has no clock of its own", findings);
    return;
  }
  if (IsHostFloor(source.path)) return;
  Forbid(source, kClocks, "hosts", "logic asks Context::now()", findings);
  Forbid(source, kSleeps, "hosts", "logic starts a timer", findings);
  Forbid(source, kThreads, "hosts", "logic submits a Job", findings);
  Forbid(source, kChance, "hosts", "logic draws from common/rng.h", findings);
}

}  // namespace skerry::tidy
