// Random numbers by counter: value i of a stream is a pure function of (seed, purpose, i), so
// streams never disturb each other and a run repeats from its seed on every machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

namespace skerry {

// SplitMix64's finaliser (Steele, Lea, Flood 2014): a bijection with full avalanche.
constexpr uint64_t Mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// FNV-1a, to turn a purpose into a stream number. Not for adversaries.
constexpr uint64_t HashName(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325ULL;
  for (const char c : name) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  return h;
}

// One stream. Copyable; a copy continues independently with the same values.
class Rng {
 public:
  explicit constexpr Rng(uint64_t seed, std::string_view purpose = "", uint64_t index = 0)
      : key_(Mix64(Mix64(seed ^ HashName(purpose)) + index)) {}

  constexpr uint64_t Next() { return Mix64(key_ + 0x632be59bd9b4e019ULL * counter_++); }

  // Uniform in [0, bound); bound > 0.
  constexpr uint64_t Below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * bound) >> 64);
  }

  // Uniform in [0, 1), 53 bits.
  constexpr double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

  // Normal(0, 1) by Box–Muller; two draws each.
  double Normal() {
    const double u = 1.0 - Uniform();
    const double v = Uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
  }

 private:
  uint64_t key_;
  uint64_t counter_ = 0;
};

}  // namespace skerry
