#include "bench/fidelity.h"

namespace skerry::bench {

void BenchRuns(Bench&, const FidelityOptions&) {}

}  // namespace skerry::bench
