#include "localsgd/robust.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/check.h"
#include "compression/fixed_point.h"

namespace skerry {
namespace {

constexpr size_t kCrowd = 3;     // fewer cannot outvote one
constexpr int kIterations = 32;  // each halves the distance to the fixed point at least

RobustWeights AllAlike(size_t count) {
  return {std::vector<int64_t>(count, 1), std::vector<bool>(count, false)};
}

// Of the distances from `point`, itself included, the one within which lie more than half.
double DistanceToMajority(std::span<const double> distances) {
  std::vector<double> sorted(distances.begin(), distances.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

class CenteredClip {
 public:
  CenteredClip(std::span<const double> products, size_t count, double limit)
      : products_(products), count_(count), coefficients_(count, 0.0) {
    size_t medoid = 0;
    for (size_t i = 0; i < count; ++i) {
      std::vector<double> distances(count);
      for (size_t j = 0; j < count; ++j) {
        distances[j] = std::sqrt(std::max(0.0, At(i, i) + At(j, j) - 2 * At(i, j)));
      }
      const double reach = DistanceToMajority(distances);
      if (i > 0 && reach >= radius_) continue;
      radius_ = reach;
      medoid = i;
    }
    radius_ *= limit;
    coefficients_[medoid] = 1;
  }

  void Iterate() {
    std::vector<double> products(count_, 0.0);  // D_i · v
    double square = 0;                          // v · v
    for (size_t i = 0; i < count_; ++i) {
      for (size_t j = 0; j < count_; ++j) products[i] += coefficients_[j] * At(i, j);
      square += coefficients_[i] * products[i];
    }
    std::vector<double> drawn(count_);
    double total = 0;
    for (size_t i = 0; i < count_; ++i) {
      const double distance = std::sqrt(std::max(0.0, At(i, i) + square - 2 * products[i]));
      drawn[i] = distance <= radius_ ? 1 : radius_ / distance;
      total += drawn[i];
    }
    const auto r = static_cast<double>(count_);
    for (size_t i = 0; i < count_; ++i) {
      coefficients_[i] = coefficients_[i] * (1 - total / r) + drawn[i] / r;
    }
  }

  const std::vector<double>& coefficients() const { return coefficients_; }

 private:
  double At(size_t i, size_t j) const { return products_[i * count_ + j]; }

  std::span<const double> products_;
  size_t count_;
  double radius_ = 0;
  std::vector<double> coefficients_;  // a_c ≥ 0, of total 1
};

}  // namespace

RobustWeights ScreenWeights(std::span<const double> norms, double limit) {
  RobustWeights out = AllAlike(norms.size());
  std::vector<double> sorted;
  std::copy_if(norms.begin(), norms.end(), std::back_inserter(sorted),
               [](double norm) { return norm > 0; });
  if (sorted.size() < kCrowd) return out;
  std::sort(sorted.begin(), sorted.end());
  const double most = limit * sorted[(sorted.size() - 1) / 2];
  for (size_t i = 0; i < norms.size(); ++i) {
    if (norms[i] <= most) continue;
    out.weights[i] = 0;
    out.screened[i] = true;
  }
  return out;
}

std::vector<int64_t> BelievedTokens(std::span<const double> norms, std::vector<int64_t> tokens,
                                    double limit) {
  const auto pull = [&](size_t i) { return norms[i] * static_cast<double>(tokens[i]); };
  std::vector<double> sorted;
  for (size_t i = 0; i < norms.size(); ++i) {
    if (pull(i) > 0) sorted.push_back(pull(i));
  }
  if (sorted.size() < kCrowd) return tokens;
  std::sort(sorted.begin(), sorted.end());
  const double most = limit * sorted[(sorted.size() - 1) / 2];
  for (size_t i = 0; i < norms.size(); ++i) {
    if (pull(i) > most) tokens[i] = std::max<int64_t>(1, std::llround(most / norms[i]));
  }
  return tokens;
}

RobustWeights ClipWeights(std::span<const double> products, double limit) {
  const auto count = static_cast<size_t>(std::lround(std::sqrt(double(products.size()))));
  SKERRY_CHECK(count * count == products.size() && count > 0);
  RobustWeights out = AllAlike(count);
  std::vector<size_t> crowd;
  for (size_t i = 0; i < count; ++i) {
    if (products[i * count + i] > 0) crowd.push_back(i);
  }
  if (crowd.size() < kCrowd) return out;

  std::vector<double> among(crowd.size() * crowd.size());
  for (size_t i = 0; i < among.size(); ++i) {
    among[i] = products[crowd[i / crowd.size()] * count + crowd[i % crowd.size()]];
  }
  CenteredClip clip(among, crowd.size(), limit);
  for (int i = 0; i < kIterations; ++i) clip.Iterate();
  const std::vector<double>& a = clip.coefficients();
  const double largest = *std::max_element(a.begin(), a.end());
  const int64_t full = kWeightTotalMax / static_cast<int64_t>(count);
  std::fill(out.weights.begin(), out.weights.end(), full);
  int64_t common = full;
  for (size_t i = 0; i < crowd.size(); ++i) {
    const auto weight = static_cast<int64_t>(std::floor(a[i] / largest * double(full) + 0.5));
    out.weights[crowd[i]] = weight;
    out.screened[crowd[i]] = 2 * weight < full;
    common = std::gcd(common, weight);
  }
  for (int64_t& weight : out.weights) weight /= common;
  return out;
}

int64_t TrimmedAtEachEnd(int64_t messages, double trim) {
  if (messages < static_cast<int64_t>(kCrowd) || trim <= 0) return 0;
  constexpr double kOfFloat = 1e-6;  // 0.35f of 20 is 7
  const auto share = static_cast<int64_t>(std::floor(trim * double(messages) + kOfFloat));
  return std::clamp<int64_t>(share, 1, (messages - 1) / 2);
}

}  // namespace skerry
