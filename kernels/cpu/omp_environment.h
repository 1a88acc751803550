// OpenMP on shared machines: waiting threads sleep instead of burning a processor somebody needs.
#pragma once

namespace skerry {

// To be called first in main. libgomp reads its settings from the environment before main begins,
// so when OMP_WAIT_POLICY or GOMP_SPINCOUNT is missing they are set (passive, a spin of 2000) and
// the program executes itself again: once, with the same process id and arguments. Settings that
// are there already are respected. Where a program cannot execute itself
// (no /proc) it goes on with libgomp's own choice, which is only slower.
void UsePassiveWaiting(int argc, char** argv);

}  // namespace skerry
