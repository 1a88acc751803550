// What sending and receiving one message costs a node besides its bytes, seconds: the work of
// sealing, framing and waking up. It weighs in how many stages and microbatches there are.
#pragma once

namespace skerry {

inline constexpr double kMessageSeconds = 1e-3;

}  // namespace skerry
