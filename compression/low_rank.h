// Low rank: each block of a matrix as the sum of a few outer products, in the form of PowerSGD
// (Vogels et al. 2019, M ≈ P·Qᵀ), for single messages: no second trip, no state.
//
//   matrix [rows, columns], cut by rows into blocks of alike size          D = Σ_k 2^e_k · p_k q_kᵀ
//
//   for every block:  r scale bytes, e + 40 · p [r, rows] int8 · q [r, columns] int8
//
// r is what fits into `bits` a value, at least 1. What is no matrix (norms, rows that a piece cuts)
// goes in runs of up to 256 values as blocks of one row, that is as int8. A message has a fixed
// length. Its columns P come from two rounds of subspace iteration (Halko, Martinsson, Tropp 2011,
// algorithm 4.4) from a fixed start; which multiples of 2^e are sent is rounding to nearest.
//
// Deltas of transformers are near low rank: at 0.15 bit a value it keeps three times as much of
// the square as top-k does (docs/decisions/0018-codecs.md). Other codecs promise that D(msg) is
// encoded to msg again; this one only to something within rounding of it, as the factors of a
// matrix are not unique.
//
// A void delta here is also one whose products may exceed the grid: Σ_k 2^(14 + e_k) > 2^11.
#pragma once

#include <vector>

#include "compression/codec.h"

namespace skerry {

// A run of values in row-major order; one row: no matrix.
struct MatrixRun {
  int64_t rows = 1;
  int64_t columns = 0;
  int64_t size() const { return rows * columns; }
  bool operator==(const MatrixRun&) const = default;
};
using MatrixShape = std::vector<MatrixRun>;

// The values [first, first + size) of such runs: whole rows stay matrices.
MatrixShape SliceShape(const MatrixShape& shape, int64_t first, int64_t size);

// Unlike other codecs it is made for one number of values: `n` of every call, or the size of every
// span, is values() (CHECK). Immutable, any number of threads may share one.
class LowRankCodec final : public Codec {
 public:
  // `bits` a value, > 0.
  LowRankCodec(const MatrixShape& shape, double bits, const CodecLoops& loops);

  int64_t values() const { return values_; }
  int64_t EncodedSizeMax(int64_t n) const override;
  void AccumulateRange(std::span<const uint8_t> bytes, int64_t n, int64_t first, int64_t weight,
                       std::span<int64_t> sum) const override;
  void DecodeRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                   std::span<float> values) const override;

 private:
  struct Block {
    int64_t first = 0;  // value
    int64_t rows = 0, columns = 0, rank = 0;
    int64_t offset = 0;  // in the message
    int64_t size() const { return rows * columns; }
    int64_t bytes() const { return rank * (1 + rows + columns); }
  };
  struct Workspace;

  void AddRun(const MatrixRun& run, double bits);
  void AddBlock(int64_t rows, int64_t columns, int64_t rank);
  std::optional<size_t> EncodeInto(const DeltaSource& source,
                                   std::span<uint8_t> out) const override;
  bool EncodeBlock(const Block& block, const DeltaSource& source, Workspace* work,
                   uint8_t* out) const;
  void FindFactors(const Block& block, Workspace* work) const;
  void DecodeRow(const Block& block, const uint8_t* message, int64_t row, int64_t column,
                 std::span<float> values) const;
  absl::Status CheckContent(std::span<const uint8_t> bytes, int64_t n) const override;

  std::vector<Block> blocks_;
  int64_t values_ = 0, bytes_ = 0;
  int64_t block_values_max_ = 0;
  const CodecLoops& loops_;
};

}  // namespace skerry
