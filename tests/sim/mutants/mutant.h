// Which mutation of the production code is awake; mutations.cmake puts the question into copies of
// production sources.
#pragma once

namespace skerry {

bool MutantIs(int number);
void WakeMutant(int number);  // 0: none; of the whole program

}  // namespace skerry
