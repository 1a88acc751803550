// The loss on held-out text of a run: while it goes on of its newest checkpoint, by `skerry-node
// evaluate` in a process of the lowest priority beside `serve`, and at its end of the model that
// came out (docs/decisions/0062-held-out.md). What came of it lies in DIR/held-out.json:
//
//   {"generation": 3, "step": 96, "loss": 1.73, "tokens": 2048}    tokens: that were predicted
//   {"final": true, "step": 256, "loss": 1.64, "tokens": 2048}     of DIR/model
//
// from where `serve` takes it into events, status and dashboard. The model lies in DIR/held-out
// meanwhile.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/idle_child_program.h"
#include "coordinator/run_directory.h"

namespace skerry {

// Unless somebody asks for another number, and of models up to so many parameters: it takes
// seconds.
inline constexpr int64_t kHeldOutWindowsMin = 16;
inline constexpr int64_t kHeldOutTokens = 16'384;  // of the demo as many as evaluate's default
int64_t HeldOutWindows(int64_t context);
inline constexpr int64_t kHeldOutParametersMax = 100'000'000;

// So long a finished run waits for the loss of its model: where that is cheap, and where somebody
// asked for it.
inline constexpr auto kFinalPatience = std::chrono::seconds(120);
inline constexpr auto kFinalPatienceAskedFor = std::chrono::minutes(30);

// Of DIR/model, which a finished run has: what the watcher's ReadFinal does.
struct FinalEvaluation {
  std::string directory, node;  // `node`: the program
  int64_t windows = kHeldOutWindowsMin;
  int64_t step = 0;  // after which it is
  int32_t context = 0;
};

// Cancelled where `goes_on`, asked some times a second, said no.
absl::Status EvaluateFinal(const FinalEvaluation& final, const std::function<bool()>& goes_on);

class HeldOutWatcher {
 public:
  // Over so many windows of the held-out tokens; 0: never; nullopt: HeldOutWindows where that is
  // cheap. Says why not, where something is in the way. Begin it before keys, sockets and threads.
  HeldOutWatcher(const OpenedRun& run, std::optional<int64_t> windows);
  void Stop() { child_.reset(); }

  // How long ReadFinal may take; 0: it does nothing.
  std::chrono::seconds FinalPatience() const { return patience_; }
  // Of a finished run, after everything else has ended: waits until held-out.json is of DIR/model,
  // or that takes too long, or a signal comes; says which. `tell` hears every second how much
  // longer it may be.
  void ReadFinal(const std::function<void(std::chrono::seconds)>& tell);

 private:
  std::optional<IdleChild> child_;
  FinalEvaluation final_;
  std::chrono::seconds patience_{0};
};

// What is in the way of it; "": nothing. `asked_for`: at whatever cost.
std::string WhyNoHeldOut(const OpenedRun& run, bool asked_for, const std::string& node);

// Evaluates the newest checkpoint unless held-out.json is of it; `node`: the program. OK if there
// is nothing to do, too.
absl::Status EvaluateNewest(const std::string& directory, const std::string& node, int64_t windows);

// Not thread-safe.
class HeldOutReader {
 public:
  // What is there already was told before.
  explicit HeldOutReader(const std::string& directory);
  // Reads the file again; true: it says something new.
  bool Look();
  // {}: nothing yet.
  const nlohmann::json& newest() const { return newest_; }

 private:
  std::string path_;
  nlohmann::json newest_;
};

}  // namespace skerry
