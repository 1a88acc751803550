// Matrix products by oneDNN: the only place that knows it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "kernels/shape_checks.h"

namespace skerry {

struct GemmCall {
  Transpose ta, tb;
  GemmSizes sizes;  // every size ≥ 1
  ConstTensor a, b;
  float beta;  // 0 or 1
  Tensor c;
};

// One product after another, on the calling thread and a team of `threads` − 1 more. What
// oneDNN prepares for a shape is kept for the next call of that shape; a model has a few dozen.
//
// With several threads a product is cut into slices of rows, each multiplied by one thread, which
// takes the next slice when it is done: where other programs hold a processor, nobody waits for
// more than one slice, as a team inside oneDNN would at its barriers. Slices depend on the shape
// only, and those of a transposed factor are copied together first. On AVX-512 slices have the bits
// of the whole; with older instructions oneDNN's bits may depend on whether there are slices, that
// is on one or several threads, never on timing. On AVX2 they are slow: tiled_products.h.
//
// omp_set_num_threads belongs to the calling thread and Run calls it there, so one thread owns a
// Gemm.
class GemmCache {
 public:
  explicit GemmCache(int threads);
  ~GemmCache();

  // Internal, with oneDNN's words, if it refuses the shape; ResourceExhausted without memory.
  absl::Status Run(const GemmCall& call);

 private:
  // Transposes, m, n, k, beta, steps, types.
  using Key = std::array<int64_t, 11>;
  struct Engine;
  struct Product;

  absl::StatusOr<Product*> Find(const GemmCall& call);
  absl::Status RunSlices(const GemmCall& call, int64_t slice_rows);

  int threads_;
  std::unique_ptr<Engine> engine_;
  std::map<Key, std::unique_ptr<Product>> products_;
};

// Whether bf16 products run on instructions made for it; oneDNN refuses them or is slow where not.
bool MultipliesBfloat16();
// And whether those are faster than float32's: all of AMX are, AVX512-BF16 of some (limits.h).
bool Bfloat16Pays();

// "oneDNN 2.6.3, AVX2": the library, and the instruction set that it will use.
std::string GemmLibrary();

}  // namespace skerry
