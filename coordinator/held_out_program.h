// The loss on held-out text of a run that goes on: of its newest checkpoint, by `skerry-node
// evaluate` in a process of the lowest priority beside `serve` (docs/decisions/0062-held-out.md).
// What came of it lies in DIR/held-out.json:
//
//   {"generation": 3, "step": 96, "loss": 1.73, "tokens": 2048}    tokens: that were predicted
//
// from where `serve` takes it into events, status and dashboard. The model lies in DIR/held-out
// meanwhile.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/idle_child_program.h"
#include "coordinator/run_directory.h"

namespace skerry {

// Unless somebody asks for more, and of models up to so many parameters: it takes seconds.
inline constexpr int64_t kHeldOutWindows = 16;
inline constexpr int64_t kHeldOutParametersMax = 100'000'000;

class HeldOutWatcher {
 public:
  // Over so many windows of the held-out tokens; 0: never; nullopt: kHeldOutWindows where that is
  // cheap. Says why not, where something is in the way. Begin it before keys, sockets and threads.
  HeldOutWatcher(const OpenedRun& run, std::optional<int64_t> windows);
  void Stop() { child_.reset(); }

 private:
  std::optional<IdleChild> child_;
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
