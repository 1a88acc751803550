#include "kernels/cpu/omp_environment.h"

#include <cstdlib>

#include "common/own_program.h"

namespace skerry {

void UsePassiveWaiting(int /*argc*/, char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr && std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  constexpr int kKeepTheirs = 0;
  if (setenv("OMP_WAIT_POLICY", "passive", kKeepTheirs) != 0) return;
  if (setenv("GOMP_SPINCOUNT", "2000", kKeepTheirs) != 0) return;
  ExecuteItself(argv);
}

}  // namespace skerry
