#include "sim/swarm_program.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "common/status.h"
#include "coordinator/screen.h"

namespace skerry {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int32_t kJobsMax = 256;

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
      const SwarmSeed seed{options_.first + static_cast<uint64_t>(*index), options_.draw};
      SwarmTry tried = TrySwarmSeed(seed, options_.twice);
      const std::lock_guard lock(mutex_);
      if (tried.finding && !options_.keep_going) closed_ = true;
      done_.emplace(*index, std::move(tried));
      changed_.notify_all();
    }
  }

  // The result of seed number `index`, from 0; nullopt: it was not tried.
  std::optional<SwarmTry> Result(int64_t index) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_.contains(index) || (closed_ && index >= next_); });
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

absl::Status Print(const SwarmOptions& options, SeedQueue& queue) {
  std::FILE* hashes = nullptr;
  if (!options.hashes.empty() && (hashes = std::fopen(options.hashes.c_str(), "w")) == nullptr) {
    return InvalidArgument("--hashes: cannot write %s", options.hashes);
  }
  int64_t tried = 0, wrong = 0, handovers = 0, detours = 0, movers = 0;
  while (auto result = queue.Result(tried)) {
    const auto seed = static_cast<unsigned long>(options.first) + static_cast<unsigned long>(tried);
    if (hashes != nullptr) {
      std::fprintf(hashes, "%lu %016lx\n", seed, static_cast<unsigned long>(result->trace_hash));
    }
    ++tried;
    handovers += result->handovers;
    detours += result->detours;
    movers += result->movers;
    if (!result->finding) continue;
    ++wrong;
    Print(*result->finding);
    std::fflush(stdout);
    if (!options.keep_going) break;
  }
  if (hashes != nullptr) std::fclose(hashes);
  std::printf(
      "%ld seeds from %lu in %.1f s, %ld handovers, %ld detours, %ld nodes moved: %ld wrong\n",
      static_cast<long>(tried), static_cast<unsigned long>(options.first), queue.elapsed_s(),
      static_cast<long>(handovers), static_cast<long>(detours), static_cast<long>(movers),
      static_cast<long>(wrong));
  return wrong == 0 ? absl::OkStatus() : Internal("%d of %d seeds are wrong", wrong, tried);
}

}  // namespace

absl::Status Swarm(const SwarmOptions& options, const volatile bool& interrupted) {
  if (options.draw < 1 || options.draw > kSwarmDrawLast) {
    return InvalidArgument("--draw: want 1 to %d, got %d", kSwarmDrawLast, options.draw);
  }
  if (options.jobs < 1 || options.jobs > kJobsMax) {
    return InvalidArgument("--jobs: want 1 to %d, got %d", kJobsMax, options.jobs);
  }
  if (options.events || options.messages) {
    PrintEvents({options.first, options.draw}, options.messages);
    return absl::OkStatus();
  }
  SeedQueue queue(options, interrupted);
  std::vector<std::thread> threads;
  for (int32_t i = 0; i < options.jobs; ++i) threads.emplace_back([&] { queue.Work(); });
  const absl::Status status = Print(options, queue);
  for (std::thread& thread : threads) thread.join();
  return interrupted ? absl::CancelledError("interrupted") : status;
}

}  // namespace skerry
