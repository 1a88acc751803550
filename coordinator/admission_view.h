// Everything about admission on one screen, and names shortened as people type them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/run_state.h"

namespace skerry {

// `status` as status.json, or anything else where nobody serves; `now_unix` in seconds.
nlohmann::json AdmissionJson(const RunState& state, const nlohmann::json& status, int64_t now_unix);
std::string AdmissionText(const nlohmann::json& admission, const std::string& directory);

// The node whose name begins with `text`: one that asked, was here, or is on a list. A whole name
// (64 characters) may be anybody's. InvalidArgument: nobody's, or of several.
absl::StatusOr<NodeId> NodeNamed(const RunState& state, const std::string& text);
// The stage whose parameters nobody else has, and no checkpoint. nullopt: the run can spare `node`.
std::optional<int32_t> OnlyHeldBy(const RunState& state, const NodeId& node);
// The same as NodeNamed of a ticket's id.
absl::StatusOr<std::string> TicketNamed(const RunState& state, const std::string& text);

}  // namespace skerry
