// Connections are files, and what systems allow a process by default (often 1024) is less than a
// run of a thousand nodes takes, or than strangers can open.
#pragma once

#include <cstddef>

namespace skerry {

// As many open files as the system lets this process have without asking anybody.
void RaiseOpenFileLimit();

// How many that is now.
size_t OpenFileLimit();

}  // namespace skerry
