#include "compression/loops.h"

namespace skerry {

const CodecLoops& BestLoops() {
  static const CodecLoops& best = []() -> const CodecLoops& {
    if (Avx512Loops() != nullptr) return *Avx512Loops();
    return Avx2Loops() != nullptr ? *Avx2Loops() : BaselineLoops();
  }();
  return best;
}

}  // namespace skerry
