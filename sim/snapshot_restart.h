// A simulated coordinator restarts as a real one does: with a snapshot of some record of its
// journal, and the records after that.
#pragma once

#include "coordinator/coordinator_options.h"

namespace skerry {

// In place of the first records of options.journal their state, by way of a snapshot's bytes. How
// many follows from how many there are: no trace depends on it.
void BeginWithSnapshot(CoordinatorOptions& options);

}  // namespace skerry
