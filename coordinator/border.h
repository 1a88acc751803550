// What nodes say, held to what it may mean, before anything is kept or shown: texts become short
// printable UTF-8 (they end up in JSON, in terminals and in a web page), numbers must be finite and
// in range. An admitted volunteer may still be hostile: nothing it says may stop the coordinator.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "wire/message/message.h"

namespace skerry {

inline constexpr size_t kShortTextMax = 200;  // bytes: endpoints, regions, device names, reasons

// `text` without control characters, with '?' for what is not UTF-8, at most `bytes_max` bytes.
std::string CleanText(const std::string& text, size_t bytes_max = kShortTextMax);

// Texts cleaned; what a hostile or broken device measured of itself becomes 0 ("not measured").
Hello CleanHello(Hello hello);
// Texts cleaned, counters and times that make no sense become 0.
Heartbeat CleanHeartbeat(Heartbeat heartbeat);

// In range and finite. The coordinator refuses the whole message otherwise.
bool IsSane(const LinkReading& reading);
bool IsSane(const MicrobatchLoss& loss, int32_t microbatches_per_step);
bool IsSane(const RoundApplied& applied);
bool IsSane(const BoundarySizes& sizes, const RunConfig& config);

// Without those it cannot have screened: nobody but the round's participants, each once, in order,
// and nobody where the run has no robust mode.
RoundApplied CleanApplied(RoundApplied applied, const RoundCommit& commit, OuterRobust robust);

// A JSON object as Context::Event takes it: its members, without the braces. Never throws.
std::string EventFields(const nlohmann::json& object);

}  // namespace skerry
