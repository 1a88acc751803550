// Operations with many operands, called with the few that a test has.
#pragma once

#include <vector>

#include "kernels/backend.h"

namespace skerry {

inline void Normalise(Backend& backend, ConstMatrix x, const float* weight, float epsilon,
                      Tensor out, float* inverse_rms) {
  backend.RmsNormForward({x, {}, {}, weight, epsilon, out, inverse_rms});
}

// The mean loss; with `gradient` logits become its gradient.
inline float MeanLoss(Backend& backend, const std::vector<int32_t>& targets, bool gradient,
                      Matrix logits) {
  std::vector<float> losses(targets.size());
  const float share = 1 / static_cast<float>(targets.size());
  backend.CrossEntropy(targets, {share, 0}, logits, gradient ? Tensor(logits) : Tensor(),
                       losses.data());
  double sum = 0;
  for (const float loss : losses) sum += loss;
  return static_cast<float>(sum / static_cast<double>(targets.size()));
}

inline double SumOfSquares(Backend& backend, const float* x, int64_t n) {
  const UpdateRange all = {0, n, 1, 0};
  double sum = 0;
  backend.SumsOfSquares(x, {&all, 1}, {&sum, 1});
  return sum;
}

}  // namespace skerry
