#include "model/initialize.h"

#include <algorithm>
#include <cmath>

#include "common/check.h"
#include "common/rng.h"

namespace skerry {
namespace {

// Normal(0, 1) nearly (Irwin–Hall of order 12): mean 0, variance 1 − 2⁻³², |value| < 6.
double NormalOfIntegers(Rng& rng) {
  constexpr int kDraws = 3;
  constexpr int64_t kTwiceMean = 12 * 65535;
  int64_t sum = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    const uint64_t bits = rng.Next();
    for (int shift = 0; shift < 64; shift += 16) {
      sum += static_cast<int64_t>((bits >> shift) & 0xffff);
    }
  }
  return static_cast<double>(2 * sum - kTwiceMean) * 0x1.0p-17;
}

}  // namespace

void InitializeTensor(uint64_t seed, int32_t layers, const TensorSlot& slot, std::span<float> out) {
  SKERRY_CHECK(static_cast<int64_t>(out.size()) == slot.size());
  if (slot.columns == 1) {
    std::fill(out.begin(), out.end(), slot.is_bias ? 0.0f : 1.0f);
    return;
  }
  const double scale = slot.is_residual_output ? 1.0 / std::sqrt(2.0 * layers) : 1.0;
  Rng rng(seed, "initial " + slot.name);
  for (float& value : out) {
    value = static_cast<float>(kInitialDeviation * scale * NormalOfIntegers(rng));
  }
}

void InitializeParameters(uint64_t seed, const TransformerConfig& config,
                          const ParameterLayout& layout, std::span<float> out) {
  SKERRY_CHECK(static_cast<int64_t>(out.size()) == layout.size());
  for (const TensorSlot& slot : layout.tensors()) {
    InitializeTensor(
        seed, config.layers, slot,
        out.subspan(static_cast<size_t>(slot.offset), static_cast<size_t>(slot.size())));
  }
}

}  // namespace skerry
