// Which window of the training data a microbatch reads: a pure function of the run's seed and the
// address (step, microbatch, sequence), so that no node has to be told, and a ledger of addresses
// is a ledger of tokens.
//
// Addresses are numbered index = (step · M + microbatch) · B + sequence. One pass over the data is
// W = windows consecutive indices; pass p maps them to windows by a permutation keyed by (seed, p).
// Hence every window is read exactly once per pass, and the passes differ in order.
#pragma once

#include <cstdint>

namespace skerry {

// A keyed bijection of [0, size): a Feistel network over the next power of four, walking its cycle
// until it lands inside (Black, Rogaway 2002, "Ciphers with arbitrary finite domains"). Constant
// memory, below four rounds of walking on average. A value type.
class KeyedPermutation {
 public:
  KeyedPermutation(uint64_t key, int64_t size);  // size ≥ 1
  int64_t operator()(int64_t index) const;       // index in [0, size)

 private:
  uint64_t Encrypt(uint64_t value) const;
  uint64_t key_;
  int64_t size_;
  int half_bits_;
};

struct SampleAddress {
  int64_t step = 0;
  int32_t microbatch = 0;  // in [0, M)
  int32_t sequence = 0;    // in [0, B)
};

class SampleOrder {
 public:
  // `windows` ≥ 1.
  SampleOrder(uint64_t seed, int64_t windows, int32_t microbatches_per_step,
              int32_t sequences_per_microbatch);
  int64_t WindowOf(const SampleAddress& address) const;  // in [0, windows)

 private:
  uint64_t seed_;
  int64_t windows_;
  int64_t microbatches_;
  int64_t sequences_;
};

}  // namespace skerry
