// Asks a coordinator, as a stranger, whether packets of every size pass (path_check.h).
#pragma once

#include <string>

#include "common/ids.h"
#include "wire/transport/path_check.h"

namespace skerry {

// `endpoint` is "tcp://address:port". Waits for what comes: some round trips where all is well,
// three seconds more where large packets do not pass, four at most where nobody answers.
PathVerdict AskPath(const NodeId& coordinator, const std::string& endpoint,
                    const PathPackets& packets);

}  // namespace skerry
