// Plans and what they are made of, from the wire: every list is counted before it is read.
#pragma once

#include <vector>

#include "wire/codec/read_checks.h"
#include "wire/message/message.h"
#include "wire/schema/skerry.capnp.h"

namespace skerry {

// At most `max` ids; `what` names them in the error.
std::vector<NodeId> ReadIds(ReadChecks& checks, capnp::List<schema::Id256>::Reader list, size_t max,
                            const char* what);

Path ReadPath(ReadChecks& checks, schema::Path::Reader r);

// Stages, paths and slots within the limits; whether they make a plan, validate.h says.
PlanUpdate ReadPlan(ReadChecks& checks, schema::Plan::Reader r);

}  // namespace skerry
