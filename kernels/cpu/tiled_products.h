// Products by own kernels (body/product.h, body/amx_product.h), where the library's (gemm.h) are
// slower. Of float32: on AVX2 all, as slices of a product run at half the speed of the whole there;
// on AVX-512 large gradients of weights, which it does badly. Of bf16: all by AMX.
//
// A strip of a factor is packed once, by the whole team, then slices of rows are multiplied as
// members come: nobody waits for a member whose processor somebody else holds but for one piece
// that it has begun. Every sum goes along k, in the same order for any number of threads and any
// slices.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/kernel_table.h"

namespace skerry {

class TiledProducts {
 public:
  TiledProducts(const ProductKernels& kernels, int threads);

  // Whether they are faster than the library's; decided by types and shape alone.
  bool Suit(const GemmCall& call) const;
  // "own products, AVX2"; with the library's name where they do not suit all shapes.
  std::string Names(const char* instructions) const;

  // One after another, on the calling thread and a team of `threads` − 1 more. Of the kernels'
  // type; c that or float32. ResourceExhausted without memory, of which it wants 1.5 MiB and a
  // little at most, and 150 KB a thread; of bf16 1 MiB, or what 128 columns of b take where c is
  // bf16, and 260 KB a thread.
  absl::Status Run(const GemmCall& call);

 private:
  // Columns and a range of k of a product that are packed together.
  struct Strip {
    int64_t first_column, columns, begin, depth;
  };
  void Pack(const GemmCall& call, const Strip& strip, int64_t first_panel, int64_t panels);
  void Multiply(const GemmCall& call, const Strip& strip, int64_t first_row, int64_t rows,
                float* scratch) const;
  int64_t SliceRows(int64_t m) const;
  // Floats that so many columns of a strip, a multiple of a panel's, are packed to.
  int64_t PackedFloats(int64_t columns, int64_t depth) const;
  void RunTogether(const GemmCall& call);

  const ProductKernels& kernels_;
  int threads_;
  int64_t strip_numbers_;      // of b, packed together
  std::vector<Strip> strips_;  // of the product under way
  std::unique_ptr<Buffer> panels_;
  std::vector<std::unique_ptr<Buffer>> scratch_;
};

// All that these kernels have.
std::vector<TiledProducts> OwnProducts(const KernelTable& kernels, int threads);

}  // namespace skerry
