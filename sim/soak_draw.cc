#include "sim/soak_draw.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/status.h"

namespace skerry {
namespace {

struct Kind {
  const char* name;
  bool of_coordinator;
  double least_s, most_s;  // how long it lasts
};

// By SoakFault. A gap in progress lasts at least as long as the coordinator is away, or a link that
// nothing goes around: those are drawn short enough to be borne.
constexpr std::array<Kind, kSoakFaults> kKinds = {{
    {"node killed", false, 0.2, 6},
    {"coordinator killed", true, 0.05, 3},
    {"node stopped", false, 0.5, 15},
    {"coordinator stopped", true, 0.2, 5},
    {"node cut off", false, 0.5, 15},
    {"link cut", false, 0.5, 5},
    {"coordinator's disk full", true, 0.5, 5},
    {"node's disk full", false, 1, 6},
    {"node leaves", false, 0.2, 6},
    {"serving interrupted", true, 0.05, 3},
}};

const Kind& Of(SoakFault fault) {
  return kKinds[static_cast<size_t>(fault)];
}

bool NeedsCut(SoakFault fault) {
  return fault == SoakFault::kCutNode || fault == SoakFault::kCutPair;
}
bool NeedsDisk(SoakFault fault) {
  return fault == SoakFault::kFullDisk || fault == SoakFault::kFullNodeDisk;
}

// Log-uniform: short disturbances are as worth trying as long ones.
Duration Lasting(Rng& rng, const Kind& kind) {
  return Duration::Seconds(kind.least_s * std::pow(kind.most_s / kind.least_s, rng.Uniform()));
}

bool CanSpare(const SoakFleet& fleet, size_t index) {
  const SoakMember& member = fleet.members[index];
  if (member.disturbed) return false;
  if (member.stage < 0) return true;
  for (size_t i = 0; i < fleet.members.size(); ++i) {
    const SoakMember& other = fleet.members[i];
    if (i != index && other.stage == member.stage && !other.disturbed &&
        other.working_s >= kSettledS) {
      return true;
    }
  }
  return false;
}

}  // namespace

const char* NameOf(SoakFault fault) {
  return Of(fault).name;
}

std::string TextOf(const SoakEvent& event) {
  std::string who = event.node == 0 ? "" : absl::StrFormat(" (node%d)", event.node);
  if (event.fault == SoakFault::kCutPair) {
    who = event.other == 0 ? absl::StrFormat(" (node%d, coordinator)", event.node)
                           : absl::StrFormat(" (node%d, node%d)", event.node, event.other);
  }
  return absl::StrFormat("%s%s for %.1f s", NameOf(event.fault), who, event.lasts.seconds());
}

std::optional<SoakEvent> DrawSoakEvent(Rng& rng, const SoakFleet& fleet) {
  SoakEvent event;
  event.fault = static_cast<SoakFault>(rng.Below(kSoakFaults));
  event.lasts = Lasting(rng, Of(event.fault));
  // Drawn in any case, so that what the fleet looks like moves as little as possible of the rest.
  const uint64_t whom = rng.Next(), other = rng.Next();
  if (NeedsCut(event.fault) && !fleet.can_cut) return std::nullopt;
  if (NeedsDisk(event.fault) && !fleet.can_fill) return std::nullopt;
  if (fleet.coordinator_disturbed) return std::nullopt;  // what nodes do is not known meanwhile
  if (Of(event.fault).of_coordinator) return event;
  std::vector<int32_t> spared;
  for (size_t i = 0; i < fleet.members.size(); ++i) {
    if (CanSpare(fleet, i)) spared.push_back(static_cast<int32_t>(i) + 1);
  }
  if (spared.empty()) return std::nullopt;
  event.node = spared[whom % spared.size()];
  if (event.fault == SoakFault::kCutPair) {
    event.other = static_cast<int32_t>(other % (fleet.members.size() + 1));
    if (event.other == event.node) event.other = 0;
  }
  return event;
}

}  // namespace skerry
