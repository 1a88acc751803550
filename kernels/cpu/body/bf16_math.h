// Exponentials of which a bf16 is made, for processors with AVX-512: no more exact than that needs
// (it may be off by 2·10⁻³). Included after elementwise.h, before its functions are used for Bf16.
#pragma once

namespace skerry {
namespace {

constexpr float kPowerLow = -125.9f, kPowerHigh = 126.9f;  // normal numbers

// 2^t for kPowerLow ≤ t ≤ kPowerHigh, within 3·10⁻⁶: a polynomial that is best for what is left of
// t beside a whole number (Lawson's iteration).
[[gnu::always_inline]] inline Lanes RoughPowerOfTwo(Lanes t) {
  const Lanes n = RoundToInteger(t), f = t - n;
  Lanes y = MultiplyAdd(f, Spread(9.5701e-3f), Spread(5.591786e-2f));
  y = MultiplyAdd(y, f, Spread(0.24024745f));
  y = MultiplyAdd(y, f, Spread(0.69312181f));
  return ScaleByPowerOfTwo(MultiplyAdd(y, f, Spread(0.99999926f)), n);
}

// The same for all t ≤ kPowerHigh: 0 below kPowerLow, NaN for NaN.
[[gnu::always_inline]] inline Lanes RoughPowerOrZero(Lanes t) {
  return t < Spread(kPowerLow) ? Lanes{} : RoughPowerOfTwo(Larger(t, Spread(kPowerLow)));
}

template <>
[[gnu::always_inline]] inline Lanes Sigmoid<Bf16>(Lanes x) {
  const Lanes t = Larger(Lower(x * -kLog2E, Spread(kPowerHigh)), Spread(kPowerLow));
  return _mm512_rcp14_ps(1.0f + RoughPowerOfTwo(t));
}

}  // namespace
}  // namespace skerry
