// Central differences in float64: the judge of every backward pass of kernels/reference/ops.h.
#pragma once

#include <vector>

namespace skerry {

using Doubles = std::vector<double>;

constexpr double kDifferenceError = 1e-6;  // normwise, backward pass against differences

// Σ weight·values: a loss whose gradient by `values` is `weight`.
inline double Weigh(const Doubles& weight, const Doubles& values) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += weight[i] * values[i];
  return sum;
}

// ∂loss()/∂x for every element of x, which loss() reads; x is left as it was.
template <typename Loss>
Doubles Differences(Doubles& x, Loss&& loss) {
  constexpr double kStep = 1e-5;
  Doubles gradient;
  for (double& value : x) {
    const double middle = value;
    value = middle + kStep;
    const double above = loss();
    value = middle - kStep;
    const double below = loss();
    value = middle;
    gradient.push_back((above - below) / (2 * kStep));
  }
  return gradient;
}

}  // namespace skerry
