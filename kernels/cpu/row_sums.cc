#include "kernels/cpu/row_sums.h"

#include <algorithm>

#include "common/check.h"
#include "kernels/cpu/team.h"

namespace skerry {
namespace {

constexpr int64_t kColumns = 256;  // of a share, at least; of a piece in float32

// Calls body(first, count) for all columns, at most kColumns at a time.
template <typename Body>
void InPieces(int threads, int64_t columns, const Body& body) {
  InShares(threads, columns, kColumns, [&](const Share& share, int) {
    for (int64_t first = share.first; first < share.last; first += kColumns)
      body(first, std::min(kColumns, share.last - first));
  });
}

}  // namespace

void AddToRows(const KernelTable& kernels, int threads, const float* bias, const Tensor& y) {
  InPieces(threads, y.columns, [&](int64_t first, int64_t count) {
    for (int64_t row = 0; row < y.rows; ++row) {
      const int64_t at = row * y.step + first;
      if (y.type == DType::kFloat32) {
        kernels.add(bias + first, y.floats() + at, count);
        continue;
      }
      SKERRY_CHECK(kernels.bf16 != nullptr);
      Bf16* stored = static_cast<Bf16*>(y.values) + at;
      float wide[kColumns];
      kernels.bf16->widen(stored, wide, count);
      kernels.add(bias + first, wide, count);
      kernels.bf16->round(wide, stored, count);
    }
  });
}

void SumRows(const KernelTable& kernels, int threads, const ConstTensor& x, float* sums) {
  std::fill(sums, sums + x.columns, 0.0f);
  InPieces(threads, x.columns, [&](int64_t first, int64_t count) {
    for (int64_t row = 0; row < x.rows; ++row) {
      const int64_t at = row * x.step + first;
      if (x.type == DType::kFloat32) {
        kernels.add(x.floats() + at, sums + first, count);
        continue;
      }
      SKERRY_CHECK(kernels.bf16 != nullptr);
      float wide[kColumns];
      kernels.bf16->widen(static_cast<const Bf16*>(x.values) + at, wide, count);
      kernels.add(wide, sums + first, count);
    }
  });
}

}  // namespace skerry
