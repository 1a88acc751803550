// Memory in large pages, for programs that touch much of it in random order: with pages of 4 KB a
// simulation of ten thousand nodes waits as long for the processor's page tables as for the data.
#pragma once

namespace skerry {

// Asks the kernel to back what malloc hands out from now on with pages of 2 MB, as far as they fit
// into the first gigabytes. Call once, first thing in main. Where the system has no such pages
// nothing changes.
void UseLargePages();

}  // namespace skerry
