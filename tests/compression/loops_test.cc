// The AVX2 loops give the bits of the baseline loops; both give what the definition says.
#include "compression/loops.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "compression/fixed_point.h"
#include "tests/compression/sample_values.h"

namespace skerry {
namespace {

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

struct Everything {
  bool quantised, rounded;
  std::vector<uint8_t> scales;
  std::vector<int8_t> integers;
  std::vector<float> decoded, multiples, mean;
  std::vector<int64_t> sum;
};

Everything RunAll(const CodecLoops& loops, const LoopSource& source, size_t n) {
  Everything out;
  out.scales.resize((n + 255) / 256);
  out.integers.resize(n);
  out.decoded.resize(n);
  out.multiples.resize(n);
  out.mean.resize(n);
  out.sum.assign(n, 3);
  out.quantised = loops.quantise_int8(source, n, out.scales.data(), out.integers.data());
  out.rounded = loops.round_to_quantum(source, n, out.multiples.data());
  if (!out.quantised || !out.rounded) return out;
  loops.decode_int8(out.scales.data(), out.integers.data(), n, out.decoded.data());
  loops.accumulate_int8(out.scales.data(), out.integers.data(), n, 7, out.sum.data());
  loops.accumulate_plain(out.multiples.data(), n, 5, out.sum.data());
  loops.scale_sum(out.sum.data(), n, kQuantum / 3, out.mean.data());
  return out;
}

void CheckEqual(const Everything& a, const Everything& b) {
  CHECK(a.quantised == b.quantised);
  CHECK(a.rounded == b.rounded);
  if (!a.quantised || !b.quantised) return;
  CHECK(a.scales == b.scales);
  CHECK(a.integers == b.integers);
  CHECK(SameBits(a.decoded, b.decoded));
  CHECK(SameBits(a.multiples, b.multiples));
  CHECK(a.sum == b.sum);
  CHECK(SameBits(a.mean, b.mean));
}

TEST_CASE("Loops: AVX2 and baseline give equal bits", "[compression]") {
  const CodecLoops* avx2 = Avx2Loops();
  if (avx2 == nullptr) {
    WARN("this processor has no AVX2");
    return;
  }
  auto cases = AwkwardButValid();
  for (uint64_t seed = 0; seed < 30; ++seed) cases.push_back(HeavyTail(900 + 7 * seed, seed));
  cases.push_back(std::vector<float>(400, NAN));
  for (const auto& u : cases) {
    const auto residual = HeavyTail(u.size(), 99);
    for (const LoopSource source : {LoopSource{u.data()}, LoopSource{residual.data(), u.data()},
                                    LoopSource{u.data(), nullptr, residual.data()},
                                    LoopSource{residual.data(), u.data(), residual.data()}}) {
      CheckEqual(RunAll(*avx2, source, u.size()), RunAll(BaselineLoops(), source, u.size()));
    }
  }
}

TEST_CASE("Loops: a sum becomes a float as the language's conversion says", "[compression]") {
  std::vector<int64_t> sums = {
      0, 1, -1, 1LL << 61, -(1LL << 61), (1LL << 53) + 1, -(1LL << 53) - 1};
  Rng rng(12, "sums");
  for (int i = 0; i < 2000; ++i) {
    const auto shift = static_cast<int>(2 + rng.Below(60));
    sums.push_back(static_cast<int64_t>(rng.Next()) >> shift);
  }
  std::vector<float> mean(sums.size());
  const double scale = kQuantum / 7;
  BestLoops().scale_sum(sums.data(), sums.size(), scale, mean.data());
  for (size_t i = 0; i < sums.size(); ++i) {
    REQUIRE(mean[i] == static_cast<float>(static_cast<double>(sums[i]) * scale));
  }
}

TEST_CASE("Loops: rounding to the quantum is nearbyint", "[compression]") {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto u = HeavyTail(1000, seed);
    std::vector<float> out(u.size());
    REQUIRE(BestLoops().round_to_quantum({u.data()}, u.size(), out.data()));
    for (size_t i = 0; i < u.size(); ++i) {
      REQUIRE(out[i] == static_cast<float>(std::nearbyint(double{u[i]} * 0x1p40) * 0x1p-40));
      REQUIRE_FALSE((out[i] == 0 && std::signbit(out[i])));
    }
  }
}

}  // namespace
}  // namespace skerry
