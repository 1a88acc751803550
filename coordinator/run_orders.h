// What the operator ordered of the run itself: a pause, a checkpoint at once. Part of the run's
// state, so a fold of its journal (docs/PROTOCOL.md, 46 and 47):
//
//   pause   no inner step from `at` on is begun, or, without `at`, the run goes on
//   wanted  a checkpoint of version `round` or a later one; met by a `checkpoint` of it
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace skerry {

struct RunOrders {
  std::optional<int64_t> paused_at;  // step
  std::string why;                   // of the pause
  int64_t pauses = 0;                // times that it was said: who comes back has to hear of it
  std::optional<int64_t> wanted;     // round
  bool operator==(const RunOrders&) const = default;

  static bool Owns(const std::string& kind) { return kind == "pause" || kind == "wanted"; }
  // Throws nlohmann's errors, as RunState's other records do.
  void Apply(const nlohmann::json& record);
  void OnCheckpoint(int64_t round) {
    if (wanted && round >= *wanted) wanted.reset();
  }
};

std::string PauseRecord(std::optional<int64_t> at, const std::string& why);
std::string WantedRecord(int64_t round);
// Of the status: at_step (null: not paused), why, checkpoint_wanted (round, or null).
nlohmann::json OrdersJson(const RunOrders& orders);

}  // namespace skerry
