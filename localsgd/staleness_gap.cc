#include "localsgd/staleness_gap.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/check.h"

namespace skerry {
namespace {

// Coefficients by ascending power, times z^{s+1} to be a polynomial.
std::vector<double> CharacteristicPolynomial(OuterRule rule, double beta, int s, double p) {
  const auto shift = static_cast<size_t>(s);
  std::vector<double> a(shift + 3, 0.0);
  a[shift + 2] += 1;
  a[shift + 1] -= 1 + beta;
  a[shift] += beta;
  const bool nesterov = rule == OuterRule::kNesterov;
  a[1] += nesterov ? p * (1 + beta) : p;
  a[0] -= nesterov ? p * beta : 0;
  return a;
}

// Schur–Cohn: each step divides out one degree and keeps the property.
bool AllRootsInsideUnitCircle(std::vector<double> a) {
  while (a.size() > 1) {
    const size_t top = a.size() - 1;
    const double ratio = a[0] / a[top];
    if (!(std::fabs(ratio) < 1)) return false;
    std::vector<double> b(top);
    for (size_t i = 0; i < top; ++i) b[i] = a[i + 1] - ratio * a[top - 1 - i];
    a = std::move(b);
  }
  return true;
}

}  // namespace

double StabilityLimit(OuterRule rule, double momentum, int staleness) {
  SKERRY_CHECK(momentum >= 0 && momentum < 1);
  SKERRY_CHECK(staleness >= 0 && staleness <= kStalenessMax);
  double stable = 0;
  double unstable = 4;  // 2(1+β) < 4 bounds every case
  for (int i = 0; i < 50; ++i) {
    const double p = 0.5 * (stable + unstable);
    const auto polynomial = CharacteristicPolynomial(rule, momentum, staleness, p);
    (AllRootsInsideUnitCircle(polynomial) ? stable : unstable) = p;
  }
  return stable;
}

double StalenessGap(const GapConfig& gap, OuterRule rule, double learning_rate, double momentum) {
  if (!gap.enabled) return 1;
  if (gap.given != 0) {
    SKERRY_CHECK(gap.given >= 1);
    return gap.given;
  }
  const double limit = StabilityLimit(rule, momentum, gap.staleness);
  return std::max(1.0, learning_rate * gap.contraction / (0.8 * limit));
}

}  // namespace skerry
