// Who is put out for deltas that the others of its stage leave out (localsgd/robust.h).
//
// One wild round happens to the honest: a bad batch, a burst after a pause. Who is left out by most
// others in several rounds in a row adds nothing to the run and may mean to harm it. Where all
// replicas sum everything they say the same, being the same arithmetic; in sharded rounds each
// speaks of its own part, so that one who slanders is alone. New replicas do not count against one
// that has been there for much longer, whose messages hold what a coarse codec left out before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "coordinator/run_state.h"

namespace skerry {

inline constexpr int kWildRounds = 3;  // in a row, of those that it took part in

struct WildSender {
  NodeId node;
  std::string why;  // for people
};

// Of those whom `said` names: whom, in kWildRounds rounds in a row around that one, all since it
// has its slot, more than half of the other participants screened. nullopt: nobody.
std::optional<WildSender> FindWildSender(const RunState& state, const RoundApplied& said);

}  // namespace skerry
