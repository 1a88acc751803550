#include "sim/swarm_program.h"

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/status.h"
#include "coordinator/screen.h"
#include "sim/swarm.h"

namespace skerry {
namespace {

using Clock = std::chrono::steady_clock;

void Print(const SwarmFinding& finding) {
  std::printf("seed %lu: %s\n", static_cast<unsigned long>(finding.seed), finding.wrong.c_str());
  for (const std::string& line : finding.story) std::printf("  %s\n", line.c_str());
  std::printf("  %ld steps, %ld rounds, %.1f s of virtual time, %zu violations\n",
              static_cast<long>(finding.outcome.steps), static_cast<long>(finding.outcome.rounds),
              finding.outcome.virtual_s, finding.outcome.violations.size());
  std::printf("  again: skerry-sim swarm --first %lu --seeds 1\n",
              static_cast<unsigned long>(finding.seed));
}

void PrintEvents(uint64_t seed) {
  SwarmRun drawn = DrawSwarmRun(seed, true);
  const VirtualOutcome outcome = drawn.run->Run();
  for (const std::string& line : drawn.story) std::printf("%s\n", line.c_str());
  for (const VirtualEvent& event : drawn.run->events()) {
    std::printf("%10.3f %s %s %s\n", (event.at - Instant()).seconds(),
                event.process.Short().c_str(), event.kind.c_str(), event.fields.c_str());
  }
  std::printf("%s", StatusScreen(nlohmann::json::parse(drawn.run->status())).c_str());
  const std::string wrong = WhatIsWrong(*drawn.run, outcome);
  std::printf("%s\n", wrong.empty() ? "all is well" : wrong.c_str());
}

}  // namespace

absl::Status Swarm(const SwarmOptions& options, const volatile bool& interrupted) {
  const auto start = Clock::now();
  const auto elapsed_s = [&] {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  if (options.events) {
    PrintEvents(options.first);
    return absl::OkStatus();
  }
  int64_t tried = 0, wrong = 0;
  for (; tried < options.seeds; ++tried) {
    if (interrupted) return absl::CancelledError("interrupted");
    if (options.minutes && elapsed_s() > *options.minutes * 60) break;
    const auto finding = TrySwarmSeed(options.first + static_cast<uint64_t>(tried), options.twice);
    if (!finding) continue;
    ++wrong;
    Print(*finding);
    if (options.keep_going) continue;
    ++tried;
    break;
  }
  std::printf("%ld seeds from %lu in %.1f s: %ld wrong\n", static_cast<long>(tried),
              static_cast<unsigned long>(options.first), elapsed_s(), static_cast<long>(wrong));
  return wrong == 0 ? absl::OkStatus() : Internal("%d of %d seeds are wrong", wrong, tried);
}

}  // namespace skerry
