#include "model/orthogonal_step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/status.h"

namespace skerry {
namespace {

constexpr int kIterations = 5;
// x ↦ ax + bx³ + cx⁵: steep at 0, and near 1 for all of (0.05, 1] after five times (Jordan 2024).
constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;
constexpr double kSizeOfAdamW = 0.2;

struct Scratch {
  int64_t matrix = 0, square = 0;  // floats
};

Scratch ScratchOf(const ParameterLayout& layout) {
  Scratch scratch;
  for (const TensorSlot& slot : layout.tensors()) {
    if (!slot.is_hidden_matrix) continue;
    const int64_t side = std::min(slot.rows, slot.columns);
    scratch.matrix = std::max(scratch.matrix, slot.size());
    scratch.square = std::max(scratch.square, side * side);
  }
  return scratch;
}

}  // namespace

int64_t OrthogonalStep::HeldBytes() const {
  int64_t floats = 0;
  for (const auto* buffer : {&x_, &next_, &gram_, &poly_, &left_, &right_}) {
    if (*buffer != nullptr) floats += (*buffer)->size();
  }
  return floats * static_cast<int64_t>(sizeof(float));
}

absl::StatusOr<std::unique_ptr<OrthogonalStep>> OrthogonalStep::Create(
    const ParameterLayout& layout, Backend* backend) {
  const Scratch scratch = ScratchOf(layout);
  std::unique_ptr<OrthogonalStep> step(new OrthogonalStep(backend));
  SKERRY_ASSIGN_OR_RETURN(step->x_, backend->Allocate(scratch.matrix));
  SKERRY_ASSIGN_OR_RETURN(step->next_, backend->Allocate(scratch.matrix));
  SKERRY_ASSIGN_OR_RETURN(step->gram_, backend->Allocate(scratch.square));
  SKERRY_ASSIGN_OR_RETURN(step->poly_, backend->Allocate(scratch.square));
  if (backend->compute_type() != DType::kFloat32) {
    SKERRY_ASSIGN_OR_RETURN(step->left_, backend->Allocate((scratch.square + 1) / 2));
    SKERRY_ASSIGN_OR_RETURN(step->right_, backend->Allocate((scratch.matrix + 1) / 2));
  }
  return step;
}

void OrthogonalStep::AddScaled(const float* x, float factor, float* y, int64_t n) {
  const UpdateRange all = {0, n, 1, 0};
  backend_->Sgd(-factor, {&all, 1}, {.gradient = x, .parameters = y});
}

ConstTensor OrthogonalStep::Rounded(const Matrix& matrix, Buffer* buffer) {
  if (buffer == nullptr) return matrix;
  const Tensor rounded(buffer->data(), matrix.rows, matrix.columns, matrix.columns,
                       backend_->compute_type());
  backend_->Cast(matrix, rounded);
  return rounded;
}

// X = aX + (b·G + c·G²)·X with the Gram matrix G of the smaller side.
void OrthogonalStep::Iterate(int64_t rows, int64_t columns) {
  const bool is_wide = rows <= columns;
  const int64_t side = std::min(rows, columns);
  const Matrix x{x_->data(), rows, columns}, next{next_->data(), rows, columns};
  const Matrix gram{gram_->data(), side, side}, poly{poly_->data(), side, side};

  const ConstTensor x_in = Rounded(x, right_.get());
  if (is_wide) {
    backend_->Gemm(Transpose::kNo, Transpose::kYes, x_in, x_in, 0, gram);
  } else {
    backend_->Gemm(Transpose::kYes, Transpose::kNo, x_in, x_in, 0, gram);
  }
  const ConstTensor gram_in = Rounded(gram, left_.get());
  backend_->Gemm(Transpose::kNo, Transpose::kNo, gram_in, gram_in, 0, poly);
  AddScaled(poly.values, kC - 1, poly.values, side * side);
  AddScaled(gram.values, kB, poly.values, side * side);

  const ConstTensor poly_in = Rounded(poly, left_.get());
  if (is_wide) {
    backend_->Gemm(Transpose::kNo, Transpose::kNo, poly_in, x_in, 0, next);
  } else {
    backend_->Gemm(Transpose::kNo, Transpose::kNo, x_in, poly_in, 0, next);
  }
  AddScaled(x.values, kA, next.values, x.size());
  std::swap(x_, next_);
}

const float* OrthogonalStep::Direction(const TensorSlot& slot, float beta, float scale,
                                       const float* gradient, float* momentum) {
  const int64_t n = slot.size();
  const float share = (1 - beta) * scale;
  AddScaled(momentum, beta - 1, momentum, n);
  AddScaled(gradient, share, momentum, n);
  backend_->Fill(x_->data(), 0, n);
  AddScaled(momentum, beta, x_->data(), n);
  AddScaled(gradient, share, x_->data(), n);

  const UpdateRange all = {0, n, 1, 0};
  double square = 0;
  backend_->SumsOfSquares(x_->data(), {&all, 1}, {&square, 1});
  if (square == 0) return x_->data();
  // The largest singular value is at most the norm: below 1, where the iteration converges.
  AddScaled(x_->data(), static_cast<float>(1 / (1.0001 * std::sqrt(square)) - 1), x_->data(), n);
  for (int i = 0; i < kIterations; ++i) Iterate(slot.rows, slot.columns);
  const double size =
      kSizeOfAdamW * std::sqrt(static_cast<double>(std::max(slot.rows, slot.columns)));
  AddScaled(x_->data(), static_cast<float>(size - 1), x_->data(), n);
  return x_->data();
}

}  // namespace skerry
