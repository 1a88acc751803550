// The ring: a Group of members whose values are in host memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/instant.h"
#include "kernels/group/channel.h"
#include "kernels/group/group.h"

namespace skerry {

// A member slower than this is taken for dead.
inline constexpr Duration kGroupPatience = Duration::Seconds(10);

// One member's end of a ring over `channels`; closes them when it ends. `where` is for people: "in
// this process".
std::unique_ptr<Group> MakeRing(Channels channels, std::string where);

// A ring of the threads of this process, [members].
std::vector<std::unique_ptr<Group>> MakeThreadRing(int32_t members,
                                                   Duration patience = kGroupPatience);

}  // namespace skerry
