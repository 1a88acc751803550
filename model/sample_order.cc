#include "model/sample_order.h"

#include <algorithm>
#include <bit>

#include "common/check.h"
#include "common/rng.h"

namespace skerry {
namespace {

constexpr uint64_t kRounds = 6;

}  // namespace

KeyedPermutation::KeyedPermutation(uint64_t key, int64_t size) : key_(key), size_(size) {
  SKERRY_CHECK(size >= 1);
  const int bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(size - 1)));
  half_bits_ = std::max(1, (bits + 1) / 2);
}

uint64_t KeyedPermutation::Encrypt(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint64_t mixed = left ^ (Mix64(Mix64(key_ + round) ^ right) & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

int64_t KeyedPermutation::operator()(int64_t index) const {
  SKERRY_CHECK(index >= 0 && index < size_);
  uint64_t value = static_cast<uint64_t>(index);
  do {
    value = Encrypt(value);
  } while (value >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(value);
}

SampleOrder::SampleOrder(uint64_t seed, int64_t windows, int32_t microbatches_per_step,
                         int32_t sequences_per_microbatch)
    : seed_(seed),
      windows_(windows),
      microbatches_(microbatches_per_step),
      sequences_(sequences_per_microbatch) {
  SKERRY_CHECK(windows >= 1 && microbatches_per_step >= 1 && sequences_per_microbatch >= 1);
}

int64_t SampleOrder::WindowOf(const SampleAddress& address) const {
  SKERRY_CHECK(address.step >= 0);
  SKERRY_CHECK(address.microbatch >= 0 && address.microbatch < microbatches_);
  SKERRY_CHECK(address.sequence >= 0 && address.sequence < sequences_);
  const int64_t index =
      (address.step * microbatches_ + address.microbatch) * sequences_ + address.sequence;
  Rng keys(seed_, "sample order", static_cast<uint64_t>(index / windows_));
  return KeyedPermutation(keys.Next(), windows_)(index % windows_);
}

}  // namespace skerry
