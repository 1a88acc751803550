// What goes wrong next in a soak: one fault, drawn among those that the fleet can bear.
//
// A run cannot outlive the last replica of a stage, so a node is disturbed only while another that
// has worked for a while holds the same stage; the coordinator may be disturbed at any time. Pure:
// the same stream and the same fleet give the same fault.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/instant.h"
#include "common/rng.h"

namespace skerry {

enum class SoakFault : uint8_t {
  kKillNode,         // SIGKILL, started again after `lasts`
  kKillCoordinator,  // likewise
  kStopNode,         // SIGSTOP, SIGCONT after `lasts`
  kStopCoordinator,
  kCutNode,       // nothing travels between the node and anybody
  kCutPair,       // nor between two nodes, or a node and the coordinator (other = 0)
  kFullDisk,      // of the coordinator: no byte can be written
  kFullNodeDisk,  // of a node, which is killed and starts again with a full disk and no shards
  kLeave,         // SIGINT to a node, which joins again after `lasts`
  kPauseServing,  // SIGINT to the coordinator, served again after `lasts`
  kLast = kPauseServing
};
inline constexpr size_t kSoakFaults = static_cast<size_t>(SoakFault::kLast) + 1;
const char* NameOf(SoakFault fault);

// One node as the harness sees it: number n is the process node n.
struct SoakMember {
  int32_t stage = -1;      // of its slot in the plan; −1: none
  double working_s = 0;    // for how long it has held its part of the training; 0: it does not
  bool disturbed = false;  // by a fault that lasts, or not back from one
};

struct SoakFleet {
  std::vector<SoakMember> members;  // [nodes], node n is members[n − 1]
  bool coordinator_disturbed = false;
  bool can_cut = false;   // packets are shaped
  bool can_fill = false;  // run directories are small disks
};

struct SoakEvent {
  SoakFault fault = SoakFault::kKillNode;
  int32_t node = 0;   // 0: the coordinator
  int32_t other = 0;  // kCutPair: the other end
  Duration lasts;
};
std::string TextOf(const SoakEvent& event);

// How long a node must have worked before another of its stage may be disturbed: by then it takes
// part in rounds.
inline constexpr double kSettledS = 6;

// nullopt: the drawn kind finds nobody whom the fleet can spare just now; draw again later.
std::optional<SoakEvent> DrawSoakEvent(Rng& rng, const SoakFleet& fleet);

}  // namespace skerry
