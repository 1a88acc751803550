// What swarms are drawn with.
//
// Arguments of a function are evaluated in an order that compilers choose: draw into named values,
// or into braces.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "common/rng.h"

namespace skerry {

class Dice {
 public:
  explicit Dice(uint64_t seed) : rng_(seed, "swarm") {}
  // Both ends included.
  int32_t Count(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(rng_.Below(static_cast<uint64_t>(high - low + 1)));
  }
  double Real(double low, double high) { return low + (high - low) * rng_.Uniform(); }
  // Every factor equally likely: as many draws between 0.01 and 0.1 as between 1 and 10.
  double Scale(double low, double high) { return low * std::pow(high / low, rng_.Uniform()); }
  bool Chance(double p) { return rng_.Uniform() < p; }
  template <typename T, size_t n>
  T OneOf(const std::array<T, n>& values) {
    return values[rng_.Below(n)];
  }

 private:
  Rng rng_;
};

}  // namespace skerry
