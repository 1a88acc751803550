#include "sim/compare_program.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>

#include "common/status.h"
#include "model/file_io.h"

namespace skerry {
namespace {

absl::Status WriteFile(const std::string& path, const std::string& text) {
  if (path.empty()) return absl::OkStatus();
  if (path == "-") {
    std::fputs(text.c_str(), stdout);
    return absl::OkStatus();
  }
  return ReplaceText(path, text);
}

// One run per thread; a line of progress where somebody watches.
void RunThreads(int32_t threads, size_t jobs, const std::function<void(size_t job)>& run) {
  const bool watched = isatty(STDERR_FILENO) != 0;
  std::atomic<size_t> next = 0, done = 0;
  const auto work = [&] {
    for (size_t job = next++; job < jobs; job = next++) {
      run(job);
      const size_t so_far = ++done;
      if (watched) std::fprintf(stderr, "\r%zu of %zu runs", so_far, jobs);
    }
  };
  const auto processors = static_cast<size_t>(std::max(1u, std::thread::hardware_concurrency()));
  const size_t count = std::min(threads > 0 ? static_cast<size_t>(threads) : processors, jobs);
  std::vector<std::thread> others;
  for (size_t i = 1; i < count; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  if (watched) std::fprintf(stderr, "\r%*s\r", 40, "");
}

}  // namespace

CLI::App* AddCompareCommand(CLI::App& app, CompareProgramOptions& options) {
  CLI::App* command =
      app.add_subcommand("compare", "strategies side by side on the same seeds, on virtual time");
  command->add_option("scenario", options.scenario, "scenario.toml or its directory")->required();
  std::string names;
  for (const Strategy& strategy : BuiltInStrategies(RunConfig()))
    names += (names.empty() ? "" : ", ") + strategy.name;
  command
      ->add_option("--strategies", options.strategies,
                   "names with commas between, or all, pipeline, outer, codecs; the first is what "
                   "the others are compared to. There are " +
                       names)
      ->capture_default_str();
  command
      ->add_option("--set", options.sets,
                   "one of your own: NAME:SECTION.KEY=VALUE,SECTION.KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--seeds", options.compare.seeds, "how many")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  command->add_option("--first", options.compare.first_seed, "seed to begin with")
      ->capture_default_str()
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 52));
  command->add_flag("--real-math", options.compare.real_math,
                    "train a tiny model for real, for the losses");
  command->add_option("--json", options.json, "write everything here; - is standard output");
  command->add_option("--report", options.report, "write a page with charts here");
  command->add_option("--threads", options.threads, "runs at once; 0: one per processor")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  return command;
}

absl::Status RunCompare(const CompareProgramOptions& options) {
  SKERRY_ASSIGN_OR_RETURN(const Scenario scenario, LoadScenario(options.scenario));
  SKERRY_ASSIGN_OR_RETURN(const std::vector<Strategy> strategies,
                          ChooseStrategies(scenario.run, options.strategies, options.sets));
  SKERRY_ASSIGN_OR_RETURN(const Comparison comparison,
                          Compare(scenario, strategies, options.compare,
                                  [&](size_t jobs, const std::function<void(size_t)>& run) {
                                    RunThreads(options.threads, jobs, run);
                                  }));
  if (options.json != "-") {
    const auto seeds = static_cast<long>(options.compare.seeds);
    std::printf("%s, %ld seed%s from %lu; median (least–most), changes are of equal seeds\n\n%s",
                scenario.name.c_str(), seeds, seeds == 1 ? "" : "s",
                static_cast<unsigned long>(options.compare.first_seed),
                CompareTable(comparison).c_str());
  }
  SKERRY_RETURN_IF_ERROR(WriteFile(options.json, CompareJson(comparison)));
  SKERRY_RETURN_IF_ERROR(WriteFile(options.report, CompareHtml(comparison)));
  for (const StrategyCells& strategy : comparison.strategies) {
    for (const CompareCell& cell : strategy.cells) {
      if (!cell.wrong.empty())
        return Internal("%s, seed %d: %s", strategy.strategy.name, cell.seed, cell.wrong);
    }
  }
  return absl::OkStatus();
}

}  // namespace skerry
