// A stage of which nobody is left, made again from the two stages next to it: CheckFree (Blagoev,
// Ersoy, Chen: "All is Not Lost: LLM Recovery without Checkpoints", arXiv:2506.15461, section 4.2).
//
// On the residual stream neighbouring layers are alike, so their mean is a better beginning than
// random weights. Layer i of the lost stage is the mean of layer i of the stage before and of layer
// i of the stage after, weighed by how much each still moves: ω, the squared norm of its gradient.
//
//   W = (ω_before · W_before + ω_after · W_after) / (ω_before + ω_after)
//
// ω is the sum of Adam's second moments over the stage's layers, which is that squared norm as a
// running mean; without moments (SGD), or if both are zero, both sides weigh the same. The outer
// momentum and the first moments begin at zero, the second moments at the same mean as W.
// Afterwards the inner learning rate of these layers is kRemadeRate times as large, as in the
// paper. Sums are in float64, in index order, so that the bits do not depend on the machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace skerry {

inline constexpr double kRemadeRate = 1.1;
inline constexpr int32_t kRemadeTimesMax = 4;  // of one layer; more do not raise its rate further

// What the inner learning rate of `layer` is multiplied by; `remade` as StageAssignment's.
double RateOfRemade(const std::vector<int32_t>& remade, int32_t layer);

struct RemadeWeights {
  double before = 0.5, after = 0.5;  // their sum is 1
};
// From the sums of second moments, ≥ 0; what is not finite counts as zero.
RemadeWeights WeightsOfNeighbours(double before, double after);

// *sum += Σ values, in order: so a stage may be read in parts.
void AddInOrder(std::span<const float> values, double* sum);

// out[i] = weights.before · before[i] + weights.after · after[i]; all of one length.
void MeanOfNeighbours(const RemadeWeights& weights, std::span<const float> before,
                      std::span<const float> after, std::span<float> out);

}  // namespace skerry
