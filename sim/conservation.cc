#include "sim/conservation.h"

#include <algorithm>
#include <cmath>

#include "common/check.h"

namespace skerry {
namespace {

// A handful of operations, each rounded.
constexpr double kRounding = 64 * 0x1.0p-24;

double Progress(const ReplicaVectors& replica, size_t i) {
  const double residual = replica.residual.empty() ? 0.0 : double{replica.residual[i]};
  return double{replica.base[i]} - double{replica.live[i]} + residual;
}

}  // namespace

double ConservationError(const ReplicaVectors& before, const ReplicaVectors& after,
                         std::span<const float> taken) {
  SKERRY_CHECK(before.base.size() == after.base.size() && before.base.size() == taken.size());
  double worst = 0;
  for (size_t i = 0; i < taken.size(); ++i) {
    const double error = Progress(after, i) - (Progress(before, i) - double{taken[i]});
    // A lossy codec's residual may be larger than the weights, and is rounded at its own size.
    const double residual = before.residual.empty() ? 0.0 : double{before.residual[i]};
    const double scale = std::max(
        {std::abs(double{before.base[i]}), std::abs(double{before.live[i]}),
         std::abs(double{after.base[i]}), std::abs(double{taken[i]}), std::abs(residual), 1e-3});
    worst = std::max(worst, std::abs(error) / (kRounding * scale));
  }
  return worst;
}

double LeftOverError(const LeftOverPieces& before, const LeftOverPieces& after,
                     const LeftOverPieces& added, double rounding) {
  const auto value = [](const LeftOverPieces& of, int32_t piece, size_t i) {
    const auto it = of.find(piece);
    return it == of.end() ? 0.0 : double{it->second[i]};
  };
  double worst = 0;
  for (const LeftOverPieces* all : {&before, &after, &added}) {
    for (const auto& [piece, values] : *all) {
      for (size_t i = 0; i < values.size(); ++i) {
        const double b = value(before, piece, i), d = value(added, piece, i);
        const double error = std::abs(value(after, piece, i) - (b + d));
        const double scale = kRounding * std::max({std::abs(b), std::abs(d), 1e-6}) + rounding;
        worst = std::max(worst, error / scale);
      }
    }
  }
  return worst;
}

}  // namespace skerry
