#include "sim/swarm_program.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "common/share_line_program.h"
#include "common/status.h"
#include "coordinator/screen.h"
#include "sim/fault_grid.h"

namespace skerry {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int32_t kJobsMax = 256;
constexpr auto kLookEvery = std::chrono::milliseconds(100);
constexpr int kInterruptedExit = 130;

void Print(const SwarmFinding& finding) {
  std::printf("seed %lu: %s\n", static_cast<unsigned long>(finding.seed.seed),
              finding.wrong.c_str());
  for (const std::string& line : finding.story) std::printf("  %s\n", line.c_str());
  std::printf("  %ld steps, %ld rounds, %.1f s of virtual time, %zu violations\n",
              static_cast<long>(finding.outcome.steps), static_cast<long>(finding.outcome.rounds),
              finding.outcome.virtual_s, finding.outcome.violations.size());
  std::printf("  again: skerry-sim swarm --draw %d --first %lu --seeds 1\n", finding.seed.draw,
              static_cast<unsigned long>(finding.seed.seed));
}

// Prints what happens as it happens.
class EventPrinter final : public SimulationObserver {
 public:
  explicit EventPrinter(bool messages) : messages_(messages) {}

 private:
  static void Line(Instant at, const NodeId& who, const std::string& what) {
    std::printf("%10.3f %s %s\n", (at - Instant()).seconds(), who.Short().c_str(), what.c_str());
  }
  void OnDelivered(Instant at, const NodeId& from, const NodeId& to, const Message& m) override {
    if (messages_) Line(at, to, "hears from " + from.Short() + ": " + Describe(m));
  }
  void OnEvent(Instant at, const NodeId& who, const std::string& kind,
               const std::string& fields) override {
    Line(at, who, kind + " " + fields);
  }
  void OnStart(Instant at, const NodeId& who) override { Line(at, who, "starts"); }
  void OnCrash(Instant at, const NodeId& who) override { Line(at, who, "crashes"); }
  void OnFault(Instant at, const NodeId& who, const std::string& what) override {
    Line(at, who, "fault: " + what);
  }
  void OnStop(Instant at, const NodeId& who, int, const std::string& reason) override {
    Line(at, who, "ends: " + reason);
  }

  bool messages_;
};

void PrintEvents(const SwarmSeed& seed, bool messages) {
  SwarmRun drawn = DrawSwarmRun(seed, {.keep_events = true});
  for (const std::string& line : drawn.story) std::printf("%s\n", line.c_str());
  EventPrinter printer(messages);
  drawn.run->simulation().Observe(&printer);
  const VirtualOutcome outcome = drawn.run->Run();
  std::printf("%s", StatusScreen(nlohmann::json::parse(drawn.run->status())).c_str());
  const std::string wrong = WhatIsWrong(drawn, outcome);
  std::printf("%s\n", wrong.empty() ? "all is well" : wrong.c_str());
}

// Hands out seeds to threads and gives their results back in the order of seeds.
class SeedQueue {
 public:
  SeedQueue(const SwarmOptions& options, const volatile bool& interrupted)
      : options_(options), interrupted_(interrupted), start_(Clock::now()) {}

  void Work() {
    while (const std::optional<int64_t> index = Take()) {
      const SwarmSeed seed{options_.first + static_cast<uint64_t>(*index), options_.draw,
                           options_.introduces_few};
      SwarmTry tried = TrySwarmSeed(seed, options_.twice);
      const std::lock_guard lock(mutex_);
      if (tried.finding && !options_.keep_going) closed_ = true;
      done_.emplace(*index, std::move(tried));
      changed_.notify_all();
    }
  }

  // No further ones: what was wanted is there.
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  // The result of seed number `index`, from 0; nullopt: it was not tried, or not to its end.
  std::optional<SwarmTry> Result(int64_t index) {
    std::unique_lock lock(mutex_);
    const auto is_known = [&] {
      return interrupted_ || done_.contains(index) || (closed_ && index >= next_);
    };
    // Nobody tells of a signal.
    while (!changed_.wait_for(lock, kLookEvery, is_known)) {
    }
    const auto it = done_.find(index);
    if (it == done_.end()) return std::nullopt;
    SwarmTry tried = std::move(it->second);
    done_.erase(it);
    return tried;
  }

  double elapsed_s() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  std::optional<int64_t> Take() {
    const std::lock_guard lock(mutex_);
    const bool late = options_.minutes && elapsed_s() > *options_.minutes * 60;
    if (next_ >= options_.seeds || interrupted_ || late) closed_ = true;
    changed_.notify_all();
    if (closed_) return std::nullopt;
    return next_++;
  }

  const SwarmOptions& options_;
  const volatile bool& interrupted_;
  const Clock::time_point start_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t next_ = 0;
  bool closed_ = false;
  std::map<int64_t, SwarmTry> done_;
};

// What all seeds together did.
class Tally {
 public:
  void Add(const SwarmTry& tried, uint64_t seed) {
    ++seeds;
    handovers_ += tried.handovers;
    detours_ += tried.detours;
    movers_ += tried.movers;
    rewinds_ += tried.rewinds;
    faults_ += tried.faults;
    rounds += tried.faulted_rounds;
    wrong += tried.finding.has_value();
    steps_together_ += tried.steps_together;
    partings_ += tried.partings;
    with_cohorts_ += tried.steps_together > 0 ? 1 : 0;
    sums_.Add(tried.sums);
    const GridCell cell = GridCellOf(seed);
    ++cells_[static_cast<size_t>(cell.phase)][static_cast<size_t>(cell.fault)];
    wrong_cells_[static_cast<size_t>(cell.phase)][static_cast<size_t>(cell.fault)] +=
        tried.finding.has_value();
  }

  void Print(const SwarmOptions& options, double elapsed_s) const {
    if (options.grid) PrintGrid();
    std::printf("%ld seed%s from %lu in %.1f s, %ld handovers, %ld detours, %ld nodes moved, ",
                static_cast<long>(seeds), seeds == 1 ? "" : "s",
                static_cast<unsigned long>(options.first), elapsed_s, static_cast<long>(handovers_),
                static_cast<long>(detours_), static_cast<long>(movers_));
    if (rewinds_ > 0) std::printf("%ld times back, ", static_cast<long>(rewinds_));
    if (faults_ > 0) {
      std::printf("%ld faults, %ld faulted rounds, ", static_cast<long>(faults_),
                  static_cast<long>(rounds));
    }
    std::printf("%ld wrong\n", static_cast<long>(wrong));
    if (steps_together_ > 0) {
      std::printf("cohorts: in %ld seeds, %ld steps of members together, %ld partings\n",
                  static_cast<long>(with_cohorts_), static_cast<long>(steps_together_),
                  static_cast<long>(partings_));
    }
    if (sums_.told_true > 0) PrintSums();
  }

  int64_t seeds = 0, wrong = 0, rounds = 0;

 private:
  void PrintSums() const {
    std::printf(
        "sums: %ld found true by checkers, %ld accused, %ld upheld, %ld not shown, %ld disputed, "
        "%ld states differ, %ld proofs\n",
        static_cast<long>(sums_.told_true), static_cast<long>(sums_.accused),
        static_cast<long>(sums_.upheld), static_cast<long>(sums_.not_shown),
        static_cast<long>(sums_.disputed), static_cast<long>(sums_.states_differ),
        static_cast<long>(sums_.proofs));
    if (sums_.work_checked > 0) {
      std::printf("work: %ld visits computed again, %ld times doubted, %ld nodes put out\n",
                  static_cast<long>(sums_.work_checked), static_cast<long>(sums_.work_doubted),
                  static_cast<long>(sums_.work_out));
    }
    if (sums_.liars == 0) return;
    std::printf(
        "liars: %ld had false sums in frozen rounds, in %ld at most, %ld in all; %ld were put out "
        "by "
        "a proof, %ld otherwise\n",
        static_cast<long>(sums_.liars), static_cast<long>(sums_.false_rounds_max),
        static_cast<long>(sums_.false_rounds), static_cast<long>(sums_.liars_found),
        static_cast<long>(sums_.liars_dropped));
  }

  void PrintGrid() const {
    std::printf("runs, and how many of them were wrong:\n%-18s", "");
    for (int32_t phase = 0; phase < kGridPhases; ++phase) {
      std::printf("%12s", NameOf(GridPhase{static_cast<uint8_t>(phase)}));
    }
    std::printf("\n");
    for (size_t fault = 0; fault < size_t{kGridFaults}; ++fault) {
      std::printf("%-18s", NameOf(GridFault{static_cast<uint8_t>(fault)}));
      for (size_t phase = 0; phase < size_t{kGridPhases}; ++phase) {
        std::printf("%9ld %2ld", static_cast<long>(cells_[phase][fault]),
                    static_cast<long>(wrong_cells_[phase][fault]));
      }
      std::printf("\n");
    }
  }

  int64_t handovers_ = 0, detours_ = 0, movers_ = 0, rewinds_ = 0, faults_ = 0;
  int64_t steps_together_ = 0, partings_ = 0, with_cohorts_ = 0;
  SumTally sums_;
  using Cells = std::array<std::array<int64_t, size_t{kGridFaults}>, size_t{kGridPhases}>;
  Cells cells_{}, wrong_cells_{};
};

// Of what will end it first: all seeds, the rounds or the time asked for.
double ShareDone(const SwarmOptions& options, const Tally& tally, double elapsed_s) {
  const auto of = [](int64_t done, int64_t all) {
    return static_cast<double>(done) / static_cast<double>(all);
  };
  double share = of(tally.seeds, options.seeds);
  if (options.rounds > 0) share = std::max(share, of(tally.rounds, options.rounds));
  if (options.minutes) share = std::max(share, elapsed_s / (*options.minutes * 60));
  return share;
}

// Whether all of it is in the file.
bool CloseWritten(std::FILE* file) {
  const bool failed = std::ferror(file) != 0;
  return std::fclose(file) == 0 && !failed;
}

absl::Status Print(const SwarmOptions& options, SeedQueue& queue) {
  std::FILE* hashes = nullptr;
  if (!options.hashes.empty() && (hashes = std::fopen(options.hashes.c_str(), "w")) == nullptr) {
    return InvalidArgument("--hashes: cannot write %s", options.hashes);
  }
  Tally tally;
  ShareLine line("trying seeds");
  while (auto result = queue.Result(tally.seeds)) {
    const uint64_t seed = options.first + static_cast<uint64_t>(tally.seeds);
    if (hashes != nullptr) {
      std::fprintf(hashes, "%lu %016lx\n", static_cast<unsigned long>(seed),
                   static_cast<unsigned long>(result->trace_hash));
    }
    tally.Add(*result, seed);
    line.Show(ShareDone(options, tally, queue.elapsed_s()));
    if (options.rounds > 0 && tally.rounds >= options.rounds) queue.Close();
    if (!result->finding) continue;
    line.End();
    Print(*result->finding);
    std::fflush(stdout);
    if (!options.keep_going) break;
  }
  const bool is_written = hashes == nullptr || CloseWritten(hashes);
  line.End();
  tally.Print(options, queue.elapsed_s());
  if (!is_written)
    return Internal("--hashes: %s is not whole: its disk takes no more", options.hashes);
  return tally.wrong == 0 ? absl::OkStatus()
                          : Internal("%d of %d seeds are wrong", tally.wrong, tally.seeds);
}

// --storm and --grid are names of draws; what was not said of seeds follows from them.
SwarmOptions Resolved(SwarmOptions options) {
  if (options.storm) options.draw = kStormDraw;
  if (options.numbers) options.draw = kScreenedStormDraw;
  if (options.false_sums) options.draw = kFalseSumsStormDraw;
  if (options.false_work) options.draw = kFalseWorkStormDraw;
  if (options.grid) options.draw = kGridDraw;
  if (options.seeds == 0) {
    const bool is_open = options.rounds > 0 || options.minutes;
    options.seeds = options.grid ? kGridCells * kGridTimes : is_open ? INT64_MAX : 100;
  }
  return options;
}

}  // namespace

absl::Status Swarm(const SwarmOptions& wanted, const volatile bool& interrupted) {
  if (wanted.storm && wanted.grid) return InvalidArgument("--storm or --grid: one of the two");
  if (wanted.numbers + wanted.false_sums + wanted.false_work > (wanted.storm ? 1 : 0)) {
    return InvalidArgument(
        "--numbers, --false-sums and --false-work are of storms: want --storm with one of them");
  }
  const SwarmOptions options = Resolved(wanted);
  if (options.rounds > 0 && options.draw < kStormDraw) {
    return InvalidArgument("--rounds counts faulted rounds: want --storm or --grid with it");
  }
  if (options.draw < 1 || options.draw > kSwarmDrawLast) {
    return InvalidArgument("--draw: want 1 to %d, got %d", kSwarmDrawLast, options.draw);
  }
  if (options.jobs < 1 || options.jobs > kJobsMax) {
    return InvalidArgument("--jobs: want 1 to %d, got %d", kJobsMax, options.jobs);
  }
  if (options.events || options.messages) {
    PrintEvents({options.first, options.draw, options.introduces_few}, options.messages);
    return absl::OkStatus();
  }
  SeedQueue queue(options, interrupted);
  std::vector<std::thread> threads;
  for (int32_t i = 0; i < options.jobs; ++i) threads.emplace_back([&] { queue.Work(); });
  const absl::Status status = Print(options, queue);
  if (interrupted) {
    std::fprintf(stderr, "skerry-sim: interrupted\n");
    std::fflush(nullptr);
    std::_Exit(kInterruptedExit);  // seeds under way are given up
  }
  for (std::thread& thread : threads) thread.join();
  return status;
}

}  // namespace skerry
