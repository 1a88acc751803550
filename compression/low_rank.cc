#include "compression/low_rank.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/check.h"
#include "common/rng.h"
#include "common/status.h"
#include "compression/fixed_point.h"
#include "compression/loops.h"

namespace skerry {
namespace {

constexpr int64_t kBlockRowsMin = 64;
constexpr int64_t kBlockValues = 1 << 22;  // about; what an encoder holds of a block in float32
constexpr int64_t kRowValues = 256;        // of what is no matrix
constexpr int64_t kRankMax = 255;
constexpr int64_t kOversampling = 4;  // directions sought beyond the rank
constexpr int kIterations = 2;
constexpr size_t kTile = 512;
// |Σ_k 2^e_k p q| ≤ Σ_k 2^(e_k + 14), in units at most 2^kUnitBits.
constexpr int kProductBits = 14;
constexpr uint8_t kScaleCodeMax = kUnitBits - kProductBits;

float PowerOf(int exponent) {  // of a normal one
  return std::bit_cast<float>(static_cast<uint32_t>(127 + exponent) << 23);
}

// The least e at which x / 2^e rounds to at most 127, of x > 0.
int ExponentFor(float x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  exponent -= 7;
  return std::nearbyint(std::ldexp(x, -exponent)) > 127 ? exponent + 1 : exponent;
}

float Largest(std::span<const float> values) {
  float largest = 0;
  for (const float x : values) largest = std::max(largest, std::fabs(x));
  return largest;
}

void Round(std::span<const float> values, int exponent, int8_t* out) {
  const float inverse = PowerOf(-exponent);
  for (size_t i = 0; i < values.size(); ++i) {
    out[i] = static_cast<int8_t>(std::nearbyint(values[i] * inverse));
  }
}

// Makes the vectors orthonormal in order (Gram-Schmidt, twice); one that the others span becomes
// zero.
void Orthonormalise(std::vector<float>& vectors, int64_t count, int64_t length,
                    const CodecLoops& loops) {
  const auto n = static_cast<size_t>(length);
  for (int64_t j = 0; j < count; ++j) {
    float* v = vectors.data() + j * length;
    const float before = loops.dot(v, v, n);
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t i = 0; i < j; ++i) {
        const float* of = vectors.data() + i * length;
        loops.add_scaled(-loops.dot(of, v, n), of, n, v);
      }
    }
    const float after = loops.dot(v, v, n);
    const bool spanned = !(after > 1e-10f * before) || !(after > 0);
    const float scale = spanned ? 0.0f : 1.0f / std::sqrt(after);
    for (size_t i = 0; i < n; ++i) v[i] *= scale;
  }
}

// The eigenvectors of a symmetric matrix [n, n], as rows, by falling eigenvalue: Jacobi's rotations
// in cyclic order (Golub, Van Loan, section 8.5).
std::vector<double> Eigenvectors(std::vector<double> a, size_t n) {
  constexpr int kSweeps = 12;
  std::vector<double> v(n * n, 0.0);
  for (size_t i = 0; i < n; ++i) v[i * n + i] = 1;
  const auto rotate = [&](std::vector<double>& m, size_t i, size_t j, double c, double s) {
    for (size_t k = 0; k < n; ++k) {
      const double x = m[i * n + k], y = m[j * n + k];
      m[i * n + k] = c * x - s * y;
      m[j * n + k] = s * x + c * y;
    }
  };
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = i + 1; j < n; ++j) {
        const double off = a[i * n + j];
        if (off * off <= 1e-24 * a[i * n + i] * a[j * n + j]) continue;
        const double theta = (a[j * n + j] - a[i * n + i]) / (2 * off);
        const double t = (theta >= 0 ? 1 : -1) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        rotate(a, i, j, c, s);
        for (size_t k = 0; k < n; ++k) {  // the same of the columns
          const double x = a[k * n + i], y = a[k * n + j];
          a[k * n + i] = c * x - s * y;
          a[k * n + j] = s * x + c * y;
        }
        rotate(v, i, j, c, s);
      }
    }
  }
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t x, size_t y) { return a[x * n + x] > a[y * n + y]; });
  std::vector<double> sorted;
  for (const size_t i : order) {
    sorted.insert(sorted.end(), v.begin() + static_cast<int64_t>(i * n),
                  v.begin() + static_cast<int64_t>((i + 1) * n));
  }
  return sorted;
}

// The first `kept` sums of the vectors [n, length] with the rows of `weights` [n, n].
std::vector<float> Recombine(const std::vector<double>& weights, const std::vector<float>& vectors,
                             size_t n, size_t kept, size_t length, const CodecLoops& loops) {
  std::vector<float> out(kept * length, 0.0f);
  for (size_t k = 0; k < kept; ++k) {
    for (size_t i = 0; i < n; ++i) {
      loops.add_scaled(static_cast<float>(weights[k * n + i]), vectors.data() + i * length, length,
                       out.data() + k * length);
    }
  }
  return out;
}

}  // namespace

MatrixShape SliceShape(const MatrixShape& shape, int64_t first, int64_t size) {
  MatrixShape out;
  int64_t begin = 0;
  const int64_t last = first + size;
  for (const MatrixRun& run : shape) {
    const int64_t from = std::max(first, begin) - begin,
                  to = std::min(last, begin + run.size()) - begin;
    begin += run.size();
    if (from >= to) continue;
    const int64_t row = (from + run.columns - 1) / run.columns, end_row = to / run.columns;
    if (row >= end_row) {  // no whole row
      const int64_t edge = std::min(row * run.columns, to);
      if (from < edge) out.push_back({1, edge - from});
      if (edge < to) out.push_back({1, to - edge});
      continue;
    }
    if (from < row * run.columns) out.push_back({1, row * run.columns - from});
    out.push_back({end_row - row, run.columns});
    if (end_row * run.columns < to) out.push_back({1, to - end_row * run.columns});
  }
  return out;
}

// ---- what a message looks like -----------------------------------------------------------------

LowRankCodec::LowRankCodec(const MatrixShape& shape, double bits, const CodecLoops& loops)
    : loops_(loops) {
  SKERRY_CHECK(bits > 0);
  for (const MatrixRun& run : shape) AddRun(run, bits);
}

void LowRankCodec::AddRun(const MatrixRun& run, double bits) {
  SKERRY_CHECK(run.rows > 0 && run.columns > 0);
  if (run.rows == 1) {
    for (int64_t at = 0; at < run.columns; at += kRowValues) {
      AddBlock(1, std::min(kRowValues, run.columns - at), 1);
    }
    return;
  }
  const int64_t rows_max =
      std::max(kBlockRowsMin, std::min(2 * run.columns, kBlockValues / run.columns));
  const int64_t blocks = (run.rows + rows_max - 1) / rows_max;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t rows = run.rows * (b + 1) / blocks - run.rows * b / blocks;
    const double ranks = bits * static_cast<double>(rows * run.columns) /
                         (8.0 * static_cast<double>(1 + rows + run.columns));
    const int64_t most = std::min({rows, run.columns, kRankMax});
    AddBlock(rows, run.columns, std::clamp(static_cast<int64_t>(ranks), int64_t{1}, most));
  }
}

void LowRankCodec::AddBlock(int64_t rows, int64_t columns, int64_t rank) {
  const Block block = {values_, rows, columns, rank, bytes_};
  blocks_.push_back(block);
  values_ += block.size();
  bytes_ += block.bytes();
  block_values_max_ = std::max(block_values_max_, block.size());
}

int64_t LowRankCodec::EncodedSizeMax(int64_t n) const {
  SKERRY_CHECK(n == values_, "the shape's number of values");
  return bytes_;
}

// ---- encoding ----------------------------------------------------------------------------------

struct LowRankCodec::Workspace {
  std::vector<float> values;  // of a block
  std::vector<float> p, q;    // [rank, rows], [rank, columns]
};

std::optional<size_t> LowRankCodec::EncodeInto(const DeltaSource& source,
                                               std::span<uint8_t> out) const {
  SKERRY_CHECK(static_cast<int64_t>(source.base.size()) == values_, "the shape's number of values");
  Workspace work;
  work.values.resize(static_cast<size_t>(block_values_max_));
  for (const Block& block : blocks_) {
    if (!EncodeBlock(block, source, &work, out.data() + block.offset)) return std::nullopt;
  }
  return out.size();
}

// P·Qᵀ ≈ A: P an orthonormal basis of what A does to a fixed start, sharpened by AᵀA, Q = Aᵀ·P; of
// a few directions more than are sent those that hold most.
void LowRankCodec::FindFactors(const Block& block, Workspace* work) const {
  const int64_t rank = std::min({block.rank + kOversampling, block.rows, block.columns});
  const auto columns = static_cast<size_t>(block.columns);
  work->p.assign(static_cast<size_t>(rank * block.rows), 0.0f);
  work->q.resize(static_cast<size_t>(rank * block.columns));
  for (size_t i = 0; i < work->q.size(); ++i) work->q[i] = (Mix64(i) & 1) != 0 ? 1.0f : -1.0f;
  const auto times = [&] {  // P ← A·Q
    for (int64_t i = 0; i < block.rows; ++i) {
      const float* row = work->values.data() + i * block.columns;
      for (int64_t k = 0; k < rank; ++k) {
        work->p[static_cast<size_t>(k * block.rows + i)] =
            loops_.dot(row, work->q.data() + k * block.columns, columns);
      }
    }
  };
  const auto transposed = [&] {  // Q ← Aᵀ·P
    std::fill(work->q.begin(), work->q.end(), 0.0f);
    for (int64_t i = 0; i < block.rows; ++i) {
      const float* row = work->values.data() + i * block.columns;
      for (int64_t k = 0; k < rank; ++k) {
        loops_.add_scaled(work->p[static_cast<size_t>(k * block.rows + i)], row, columns,
                          work->q.data() + k * block.columns);
      }
    }
  };
  for (int i = 0; i < kIterations; ++i) {
    times();
    Orthonormalise(work->p, rank, block.rows, loops_);
    transposed();
    if (i + 1 < kIterations) Orthonormalise(work->q, rank, block.columns, loops_);
  }
  const auto n = static_cast<size_t>(rank), kept = static_cast<size_t>(block.rank);
  if (n == kept) return;
  std::vector<double> gram(n * n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      gram[i * n + j] = gram[j * n + i] =
          double{loops_.dot(work->q.data() + i * columns, work->q.data() + j * columns, columns)};
    }
  }
  const std::vector<double> best = Eigenvectors(std::move(gram), n);
  work->p = Recombine(best, work->p, n, kept, static_cast<size_t>(block.rows), loops_);
  work->q = Recombine(best, work->q, n, kept, columns, loops_);
}

bool LowRankCodec::EncodeBlock(const Block& block, const DeltaSource& source, Workspace* work,
                               uint8_t* out) const {
  const auto size = static_cast<size_t>(block.size());
  const auto first = static_cast<size_t>(block.first);
  const uint32_t bits = loops_.form_delta(LoopSource::Of(source, first), size, work->values.data());
  std::fill(out, out + block.bytes(), uint8_t{0});
  if (bits > std::bit_cast<uint32_t>(kMagnitudeMax)) return false;
  if (bits == 0) return true;
  // Near 1, so that squares of small deltas are not lost; exact.
  const int norm = std::ilogb(std::bit_cast<float>(bits));
  const float scale = PowerOf(-std::max(norm, -120));
  for (size_t i = 0; i < size; ++i) work->values[i] *= scale;
  if (block.rows == 1) {
    work->p.assign(1, 1.0f);
    work->q.assign(work->values.begin(), work->values.begin() + block.columns);
  } else {
    FindFactors(block, work);
  }
  auto* p = reinterpret_cast<int8_t*>(out + block.rank);
  int8_t* q = p + block.rank * block.rows;
  double bound = 0;
  for (int64_t k = 0; k < block.rank; ++k, p += block.rows, q += block.columns) {
    const auto left = std::span(work->p).subspan(static_cast<size_t>(k * block.rows),
                                                 static_cast<size_t>(block.rows));
    const auto right = std::span(work->q).subspan(static_cast<size_t>(k * block.columns),
                                                  static_cast<size_t>(block.columns));
    const float largest_left = Largest(left), largest_right = Largest(right);
    if (!(largest_left > 0) || !(largest_right > 0)) {
      bound += std::ldexp(1.0, kQuantumExponent + kProductBits);
      continue;
    }
    const int left_exponent = ExponentFor(largest_left);
    const int unscaled = left_exponent + std::max(norm, -120);
    const int right_exponent = std::max(ExponentFor(largest_right), kQuantumExponent - unscaled);
    const int exponent = unscaled + right_exponent;
    bound += std::ldexp(1.0, exponent + kProductBits);
    if (exponent - kQuantumExponent > kScaleCodeMax) return false;
    Round(left, left_exponent, p);
    Round(right, right_exponent, q);
    out[k] = static_cast<uint8_t>(exponent - kQuantumExponent);
  }
  return bound <= std::ldexp(1.0, kUnitBits + kQuantumExponent);
}

// ---- decoding ----------------------------------------------------------------------------------

absl::Status LowRankCodec::CheckContent(std::span<const uint8_t> bytes, int64_t) const {
  for (size_t b = 0; b < blocks_.size(); ++b) {
    uint64_t bound = 0;  // of the values, in units
    for (int64_t k = 0; k < blocks_[b].rank; ++k) {
      const uint8_t code = bytes[static_cast<size_t>(blocks_[b].offset + k)];
      if (code > kScaleCodeMax) {
        return InvalidArgument("delta: scale %d of block %d is %d, want at most %d", k, b, code,
                               kScaleCodeMax);
      }
      bound += uint64_t{1} << (code + kProductBits);
    }
    if (bound > uint64_t{1} << kUnitBits) {
      return InvalidArgument("delta: the scales of block %d allow values beyond %g", b,
                             std::ldexp(1.0, kUnitBits + kQuantumExponent));
    }
  }
  return absl::OkStatus();
}

// `count` values of a row, from a column on.
void LowRankCodec::DecodeRow(const Block& block, const uint8_t* message, int64_t row,
                             int64_t column, std::span<float> values) const {
  std::array<float, kRankMax> factors;
  const auto* p = reinterpret_cast<const int8_t*>(message + block.rank);
  for (int64_t k = 0; k < block.rank; ++k) {
    factors[static_cast<size_t>(k)] =
        static_cast<float>(p[k * block.rows + row]) * PowerOf(message[k] + kQuantumExponent);
  }
  const int8_t* q = p + block.rank * block.rows + column;
  loops_.combine(factors.data(), q, static_cast<size_t>(block.columns),
                 static_cast<size_t>(block.rank), values.size(), values.data());
}

void LowRankCodec::DecodeRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                               std::span<float> values) const {
  SKERRY_CHECK(n == values_ && first >= 0 && first + static_cast<int64_t>(values.size()) <= n);
  if (values.empty()) return;
  auto block = std::upper_bound(blocks_.begin(), blocks_.end(), first,
                                [](int64_t at, const Block& b) { return at < b.first; });
  for (--block; !values.empty(); ++block) {
    const uint8_t* message = bytes.data() + block->offset;
    for (int64_t local = first - block->first; local < block->size() && !values.empty();) {
      const int64_t row = local / block->columns, column = local % block->columns;
      const auto count = std::min(values.size(), static_cast<size_t>(block->columns - column));
      DecodeRow(*block, message, row, column, values.first(count));
      values = values.subspan(count);
      local += static_cast<int64_t>(count);
      first += static_cast<int64_t>(count);
    }
  }
}

void LowRankCodec::AccumulateRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                                   int64_t weight, std::span<int64_t> sum) const {
  std::array<float, kTile> tile;
  for (size_t at = 0; at < sum.size(); at += kTile) {
    const auto values = std::span(tile).first(std::min(kTile, sum.size() - at));
    DecodeRange(bytes, n, first + static_cast<int64_t>(at), values);
    loops_.accumulate_plain(values.data(), values.size(), weight, sum.data() + at);
  }
}

}  // namespace skerry
