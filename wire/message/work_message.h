// Messages of checks of pipeline work: a replica computes again what another of its stage did with
// a microbatch (docs/PROTOCOL.md, "Work is checked"; docs/decisions/0056-checked-work.md); and how
// large activations and gradients are ("Sizes are watched"; docs/decisions/0063).
#pragma once

#include <cstdint>
#include <vector>

#include "common/bytes.h"
#include "common/ids.h"
#include "common/run_config.h"

namespace skerry {

// coordinator → the checker and the nodes on the path before and after `suspect`, which is not
// told.
struct WorkCheck {
  int64_t step = 0;
  int32_t microbatch = 0;
  NodeId suspect, checker;  // replicas of one stage
  NodeId before, after;
  bool operator==(const WorkCheck&) const = default;
};

// What a neighbour saw of it.
enum class WorkPart : uint8_t {
  kInput,      // the activation that `before` sent
  kOutput,     // the one that `after` got
  kGradient,   // with respect to the output, that `after` sent
  kDescended,  // with respect to the input, that `before` got
  kLast = kDescended
};
inline constexpr size_t kWorkParts = static_cast<size_t>(WorkPart::kLast) + 1;

// neighbour → checker: `values` as it travelled between the neighbour and the suspect.
struct WorkCopy {
  int64_t step = 0;
  int32_t microbatch = 0;
  int32_t attempt = 0;
  NodeId suspect;
  WorkPart part = WorkPart::kInput;
  DeltaCodec codec = DeltaCodec::kNone;
  Payload values;
  bool operator==(const WorkCopy& o) const;
};

// checker → coordinator: how far what the suspect sent is from what the checker makes of the same
// with parameters of its own, as a share of what that adds (pipeline/exec/work_distance.h).
struct WorkChecked {
  int64_t step = 0;
  int32_t microbatch = 0;
  NodeId suspect;
  float forward = 0, backward = 0;
  bool operator==(const WorkChecked&) const = default;
};

// node → coordinator, when every microbatch of steps [first_step, first_step +
// kBoundaryPeriodSteps) is over here: how large what passed between it and others was.
inline constexpr int64_t kBoundaryPeriodSteps = 8;
inline constexpr size_t kBoundarySidesMax = 256;
// log₂ of a root mean square is held to these: zeros, and what is not finite or absurd, which no
// receiver takes (pipeline/exec/boundary_tally.h).
inline constexpr float kBoundaryLog2Min = -64, kBoundaryLog2Max = 40;

struct BoundarySide {
  NodeId other;
  bool is_gradient = false;  // or an activation
  bool was_sent = false;     // to `other`, or it came from there
  int32_t count = 0;         // > 0
  float log2_rms = 0;        // mean over those of log₂ of the root mean square
  bool operator==(const BoundarySide&) const = default;
};
struct BoundarySizes {
  int64_t first_step = 0;           // a multiple of kBoundaryPeriodSteps
  std::vector<BoundarySide> sides;  // ≤ kBoundarySidesMax
  bool operator==(const BoundarySizes&) const = default;
};

}  // namespace skerry
