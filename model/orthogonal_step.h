// The direction of Muon: the momentum of a matrix, orthogonalised (Jordan et al. 2024,
// https://kellerjordan.github.io/posts/muon/; for replicas with outer steps Thérien et al. 2025,
// arXiv:2505.23725).
//
// Five Newton-Schulz iterations bring every singular value of the momentum near 1, so that what a
// replica learns in rare directions counts as much as in common ones.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "model/parameter_layout.h"

namespace skerry {

// Scratch for the largest matrix of a stage. Owned by one thread; the backend outlives it.
class OrthogonalStep {
 public:
  // Of the layout's hidden matrices. ResourceExhausted if the scratch does not fit.
  static absl::StatusOr<std::unique_ptr<OrthogonalStep>> Create(const ParameterLayout& layout,
                                                                Backend* backend);
  int64_t HeldBytes() const;

  // momentum = beta · momentum + (1 - beta) · scale · gradient, all [rows, columns] of `slot`;
  // returns (1 - beta) · scale · gradient + beta · momentum (Nesterov), orthogonalised, times 0.2 ·
  // √max(rows, columns), which gives it the size of a step of AdamW (Liu et al. 2025,
  // arXiv:2502.16982, section 2.2). [rows · columns], in the backend's memory, until the next call.
  // Zeros of zeros.
  const float* Direction(const TensorSlot& slot, float beta, float scale, const float* gradient,
                         float* momentum);

 private:
  explicit OrthogonalStep(Backend* backend) : backend_(backend) {}
  void AddScaled(const float* x, float factor, float* y, int64_t n);  // y += factor · x
  void Iterate(int64_t rows, int64_t columns);
  ConstTensor Rounded(const Matrix& matrix, Buffer* buffer);

  Backend* backend_;
  std::unique_ptr<Buffer> x_, next_;      // [largest matrix]
  std::unique_ptr<Buffer> gram_, poly_;   // [its smaller side squared]
  std::unique_ptr<Buffer> left_, right_;  // operands in the compute type; nullptr in float32
};

}  // namespace skerry
