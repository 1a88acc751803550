// Why a step or a round took as long as it did, in words and as JSON, from the event log alone.
// Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/report.h"

namespace skerry {

struct Question {
  std::optional<int64_t> round;  // of all stages
  std::optional<int64_t> step;   // neither: the newest traced step, and its round
};

// `trace` is the traced step nearest to what was asked; null: none is in the log. NotFound when the
// log has nothing of what was asked.
absl::StatusOr<std::string> ExplainText(const RunReport& report, const TracedStep* trace,
                                        const Question& question);
nlohmann::json ExplainJson(const RunReport& report, const TracedStep* trace,
                           const Question& question);

}  // namespace skerry
