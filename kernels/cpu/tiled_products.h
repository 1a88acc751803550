// Float32 products by own kernels (body/product.h), for instruction sets on which a team of the
// library's is slow (gemm.h): AVX2, where its slices of a product run at half the speed of the
// whole.
//
// A factor is packed once, by the whole team, then slices of rows are multiplied as members come:
// nobody waits for a member whose processor somebody else holds but for one piece that it has
// begun. Every sum goes along k, in the same order for any number of threads and any slices.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/kernel_table.h"

namespace skerry {

class TiledProducts {
 public:
  TiledProducts(const ProductKernels& kernels, int threads);

  // One after another, on the calling thread and a team of `threads` − 1 more. All float32.
  // ResourceExhausted without memory, of which it wants 1 MiB and a little at most, and 150 KB a
  // thread.
  absl::Status Run(const GemmCall& call);

 private:
  // Columns and a range of k of a product that are packed together.
  struct Strip {
    int64_t first_column, columns, begin, depth;
  };
  void Pack(const GemmCall& call, const Strip& strip, int64_t first_panel, int64_t panels);
  void Multiply(const GemmCall& call, const Strip& strip, int64_t first_row, int64_t rows,
                float* scratch) const;
  void RunStrip(const GemmCall& call, const Strip& strip);

  const ProductKernels& kernels_;
  int threads_;
  std::unique_ptr<Buffer> panels_;
  std::vector<std::unique_ptr<Buffer>> scratch_;
};

}  // namespace skerry
