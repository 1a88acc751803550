// Low rank against what matrices are made of, and against the singular value decomposition's bound.
#include "compression/low_rank.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "common/rng.h"
#include "compression/fixed_point.h"
#include "compression/loops.h"
#include "tests/compression/every_codec.h"

namespace skerry {
namespace {

// A sum of `rank` outer products of Gaussian vectors, the k-th weighed 2^-k, on a floor of noise.
std::vector<float> NearLowRank(int64_t rows, int64_t columns, int rank, float noise,
                               uint64_t seed) {
  Rng rng(seed);
  std::vector<float> a(static_cast<size_t>(rows * columns));
  for (float& x : a) x = noise * static_cast<float>(rng.Normal());
  for (int k = 0; k < rank; ++k) {
    std::vector<float> p(static_cast<size_t>(rows)), q(static_cast<size_t>(columns));
    for (float& x : p) x = std::ldexp(1e-3f, -k) * static_cast<float>(rng.Normal());
    for (float& x : q) x = static_cast<float>(rng.Normal());
    for (size_t i = 0; i < a.size(); ++i) a[i] += p[i / q.size()] * q[i % q.size()];
  }
  return a;
}

double Square(std::span<const float> values) {
  return std::accumulate(values.begin(), values.end(), 0.0,
                         [](double sum, float x) { return sum + double{x} * double{x}; });
}

double SquareOfDifference(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += (double{a[i]} - double{b[i]}) * (double{a[i]} - double{b[i]});
  return sum;
}

LowRankCodec CodecOf(const MatrixShape& shape, double bits) {
  return LowRankCodec(shape, bits, BestLoops());
}

}  // namespace

TEST_CASE("low rank sends a matrix of few outer products nearly whole", "[lowrank]") {
  const auto rows = GENERATE(int64_t{2}, 70, 300, 1100);
  const auto columns = GENERATE(int64_t{3}, 64, 192);
  const auto u = NearLowRank(rows, columns, 1, 0, 7);
  const LowRankCodec codec = CodecOf({{rows, columns}}, 1.0);
  const auto decoded = MustDecode(codec, MustEncode(codec, u), u.size());
  CHECK(SquareOfDifference(u, decoded) <= 1e-3 * Square(u));
}

TEST_CASE("low rank comes near the best approximation of its rank", "[lowrank]") {
  // Squares of the outer products are in proportion 4^-k, so past the first r about 4^-r is left.
  constexpr int64_t kRows = 256, kColumns = 256;
  const float noise = 1e-5f;
  const auto u = NearLowRank(kRows, kColumns, 12, noise, 3);
  const int rank = GENERATE(1, 2, 3, 4, 5);
  const double bits = 8.0 * rank * (1 + kRows + kColumns) / (kRows * kColumns) + 1e-6;
  const LowRankCodec codec = CodecOf({{kRows, kColumns}}, bits);
  CHECK(codec.EncodedSizeMax(kRows * kColumns) == rank * (1 + kRows + kColumns));
  const auto decoded = MustDecode(codec, MustEncode(codec, u), u.size());
  const double left = SquareOfDifference(u, decoded) / Square(u);
  // Rounding of the factors to eight bits leaves 4e-4.
  CHECK(left <= 1.5 * std::pow(4.0, -rank) + 4e-4);
}

TEST_CASE("low rank is contractive on whatever it is given", "[lowrank]") {
  const MatrixShape shape = {{1, 300}, {64, 48}, {7, 3}, {1, 5}, {130, 64}};
  int64_t n = 0;
  for (const MatrixRun& run : shape) n += run.size();
  const LowRankCodec codec = CodecOf(shape, GENERATE(0.1, 1.0, 4.0));
  const double loudness = GENERATE(1e-9, 1e-4, 1e-2);
  Rng rng(11);
  for (int i = 0; i < 20; ++i) {
    std::vector<float> u(static_cast<size_t>(n));
    for (float& x : u) x = static_cast<float>(loudness * rng.Normal() * std::exp(2 * rng.Normal()));
    const Bytes message = MustEncode(codec, u);
    CHECK(static_cast<int64_t>(message.size()) == codec.EncodedSizeMax(n));
    const auto decoded = MustDecode(codec, message, u.size());
    // A 2^-40th a value is below the grid.
    CHECK(SquareOfDifference(u, decoded) <= Square(u) + static_cast<double>(n) * 0x1p-80);
    // What was decoded is sent nearly whole.
    const auto again = MustDecode(codec, MustEncode(codec, decoded), u.size());
    CHECK(SquareOfDifference(decoded, again) <=
          1e-3 * Square(decoded) + static_cast<double>(n) * 0x1p-80);
  }
}

TEST_CASE("low rank: all loops, all ranges and the sum give the same bits", "[lowrank]") {
  const MatrixShape shape = {{1, 300}, {300, 64}, {33, 100}, {1, 1}};
  const int64_t n = 300 + 300 * 64 + 3300 + 1;
  Rng rng(5);
  std::vector<float> u(static_cast<size_t>(n));
  for (float& x : u) x = static_cast<float>(1e-3 * rng.Normal());
  const LowRankCodec best(shape, 1.5, BestLoops()), plain(shape, 1.5, BaselineLoops());
  const Bytes message = MustEncode(plain, u);
  CHECK(MustEncode(best, u) == message);
  const auto decoded = MustDecode(plain, message, u.size());
  CHECK(SameBits(MustDecode(best, message, u.size()), decoded));
  std::vector<int64_t> sum(u.size(), 3);
  REQUIRE(best.DecodeAccumulate(message, 5, sum).ok());
  for (size_t i = 0; i < u.size(); ++i) {
    const double units = std::ldexp(double{decoded[i]}, -kQuantumExponent);
    REQUIRE(units == std::nearbyint(units));
    REQUIRE(sum[i] == 3 + 5 * static_cast<int64_t>(units));
  }
  for (int i = 0; i < 50; ++i) {
    const auto first = static_cast<int64_t>(rng.Below(static_cast<uint64_t>(n)) / 256 * 256);
    std::vector<float> part(static_cast<size_t>(
        std::min<int64_t>(n - first, 256 * static_cast<int64_t>(1 + rng.Below(20)))));
    best.DecodeRange(message, n, first, part);
    CHECK(SameBits(std::span<const float>(part), std::span<const float>(decoded).subspan(
                                                     static_cast<size_t>(first), part.size())));
  }
}

TEST_CASE("low rank refuses what cannot be, and survives any bytes", "[lowrank]") {
  const MatrixShape shape = {{70, 64}, {1, 9}};
  const int64_t n = 70 * 64 + 9;
  const LowRankCodec codec = CodecOf(shape, 1.0);
  std::vector<float> u(static_cast<size_t>(n), 1e-3f);
  Bytes message = MustEncode(codec, u);
  CHECK_FALSE(codec.Check(std::span(message).first(message.size() - 1), n).ok());
  for (const float bad : {std::nanf(""), INFINITY, 3000.0f}) {
    auto wrong = u;
    wrong[100] = bad;
    Bytes out;
    CHECK_FALSE(codec.Encode(wrong, &out).ok());
  }
  // Two scales that are allowed each, and not together.
  Bytes loud = message;
  loud[0] = loud[1] = 37;
  CHECK_FALSE(codec.Check(loud, n).ok());
  loud[1] = 38;
  CHECK_FALSE(codec.Check(loud, n).ok());
  Rng rng(9);
  for (int i = 0; i < 300; ++i) {
    Bytes any = message;
    for (uint8_t& byte : any) {
      if (rng.Below(4) == 0) byte = static_cast<uint8_t>(rng.Below(rng.Below(2) == 0 ? 39 : 256));
    }
    std::vector<float> values(u.size(), 7.0f);
    if (!codec.Decode(any, values).ok()) {
      CHECK(values[0] == 7.0f);
      continue;
    }
    for (const float x : values) REQUIRE(std::fabs(x) <= 2048);
  }
}

TEST_CASE("slices of a shape cover the same values", "[lowrank]") {
  const MatrixShape shape = {{1, 5}, {10, 7}, {1, 3}, {4, 100}};
  CHECK(SliceShape(shape, 0, 478) == shape);
  CHECK(SliceShape(shape, 5, 14) == MatrixShape{{2, 7}});
  CHECK(SliceShape(shape, 6, 6) == MatrixShape{{1, 6}});
  CHECK(SliceShape(shape, 8, 20) == MatrixShape{{1, 4}, {2, 7}, {1, 2}});
  CHECK(SliceShape(shape, 8, 6) == MatrixShape{{1, 4}, {1, 2}});
  for (int64_t first = 0; first < 478; first += 13) {
    for (int64_t size = 1; first + size <= 478; size += 29) {
      int64_t covered = 0;
      for (const MatrixRun& run : SliceShape(shape, first, size)) covered += run.size();
      REQUIRE(covered == size);
    }
  }
}

}  // namespace skerry
