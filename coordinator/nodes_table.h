// The nodes of a run as a table for people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace skerry {

// Of NodesJson (coordinator/listings.h). `columns`: of the terminal that it should fit, where a
// last line names the facts that there was no room for; 0: all of them, however long.
std::string NodesTable(const nlohmann::json& nodes, int columns);

}  // namespace skerry
