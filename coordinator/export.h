// What the writing job leaves behind for the actor.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "coordinator/coordinator_actor.h"

namespace skerry {

struct CoordinatorActor::Writing {
  absl::Status status;
  std::string told;  // by ExportSink::Finish
  bool last = false;
};

}  // namespace skerry
