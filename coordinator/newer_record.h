// Journal records with something in them that only a newer version of the program knows.
//
// What is skipped in the journal is lost: a coordinator that goes on by a plan without what it does
// not know sends nodes another plan than they have. So it refuses, and nothing is damaged by that.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

// FailedPrecondition, which is no damage: the newer version reads it. `what` begins the sentence.
absl::Status WrittenByNewer(const std::string& what);

// WrittenByNewer if `record` says more of the plan than what was read from it: a key that is not
// known and has a value other than false, zero and empty, which stand for what was before it.
absl::Status CheckAllIsRead(const nlohmann::json& record, const PipelinePlan& read);

}  // namespace skerry
