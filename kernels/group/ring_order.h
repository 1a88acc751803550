// Which part of the values goes round a ring when: the same in every body of it, so all of them sum
// in the order that kernels/group/group.h states.
#pragma once

#include <cstdint>

namespace skerry {

// N − 1 steps each. Reduce: part p starts at member p + 1, is added to at every stop and ends at
// member p. Gather: part p starts at member p and is copied at every stop.
enum class RingPass : uint8_t { kReduce, kGather };

struct RingStep {
  int32_t give = 0;  // the part that goes to the next member
  int32_t take = 0;  // the part that comes from the one before; the next step's `give`
};

inline RingStep RingStepOf(RingPass pass, int32_t members, int32_t rank, int32_t step) {
  const auto part = [members](int32_t i) { return (i % members + members) % members; };
  const int32_t gives = rank - step - (pass == RingPass::kReduce ? 1 : 0);
  return {part(gives), part(gives - 1)};
}

}  // namespace skerry
