// How long a message keeps the lines of its two nodes, which all their links share.
//
// A reading of one link is the least of the sender's line, the receiver's, and what one flow can
// carry (TCP's window a round trip, a provider's cap). A node whose links read 40 and 400 MB/s has
// a line of 400 or more: a message on the slower link takes as long as the link says, but keeps the
// line for a tenth of that, and another goes out beside it. So the line is as fast as the fastest
// reading; of links that are at least kLineReach as far, since near nodes (one house, one region)
// are not reached over the line that leads to far ones. Of a line that was measured to be shared
// (access_lines.h) it is known what it carries, and no link through it is faster: the luckiest of
// some hundred short pings over such a line read two and a half times that.
#pragma once

#include <cstdint>
#include <vector>

#include "routing/evaluator.h"
#include "routing/topology.h"

namespace skerry {

inline constexpr double kLineReach = 0.25;

// O(n² log n).
NodeLines LinesOf(const Fleet& fleet);

// What is known of the lines that nodes share; nodes of the fleet by their index in the matrix. A
// link through such a line is made as slow as the line, or as most of its members read a node where
// they read it faster: then the line has become faster, or is on the way in.
void SetLines(const LinkMatrix& links, const std::vector<int32_t>& index_of_node,
              double boundary_bytes, Fleet* fleet);

}  // namespace skerry
