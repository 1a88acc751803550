#include "routing/canonical_order.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "common/check.h"
#include "common/rng.h"

namespace skerry {
namespace {

size_t Classes(const std::vector<uint64_t>& colours) {
  return std::set<uint64_t>(colours.begin(), colours.end()).size();
}

// Sums do not depend on the order of the neighbours.
std::vector<uint64_t> Refined(const std::vector<uint64_t>& colours,
                              const std::vector<uint64_t>& pairs) {
  const size_t n = colours.size();
  std::vector<uint64_t> refined(n);
  for (size_t i = 0; i < n; ++i) {
    uint64_t around = 0;
    for (size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      around += Mix64(Mix64(colours[j] ^ pairs[i * n + j]) + 3 * pairs[j * n + i]);
    }
    refined[i] = Mix64(Mix64(colours[i]) ^ around);
  }
  return refined;
}

void RefineUntilStable(std::vector<uint64_t>& colours, const std::vector<uint64_t>& pairs) {
  size_t classes = 0;
  while (classes != Classes(colours) && Classes(colours) < colours.size()) {
    classes = Classes(colours);
    colours = Refined(colours, pairs);
  }
}

// The first node of the first class with more than one member, −1 if there is none.
int32_t FirstTied(const std::vector<uint64_t>& colours) {
  std::vector<uint64_t> sorted = colours;
  std::sort(sorted.begin(), sorted.end());
  const auto tie = std::adjacent_find(sorted.begin(), sorted.end());
  if (tie == sorted.end()) return -1;
  return static_cast<int32_t>(std::find(colours.begin(), colours.end(), *tie) - colours.begin());
}

}  // namespace

std::vector<int32_t> CanonicalOrder(const std::vector<uint64_t>& node_features,
                                    const std::vector<uint64_t>& pair_features) {
  const size_t n = node_features.size();
  SKERRY_CHECK(pair_features.size() == n * n);
  std::vector<uint64_t> colours = node_features;
  RefineUntilStable(colours, pair_features);
  if (n <= kIndividualisedNodesMax) {
    for (int32_t tied = FirstTied(colours); tied >= 0; tied = FirstTied(colours)) {
      uint64_t& colour = colours[static_cast<size_t>(tied)];
      colour = Mix64(colour + 1);
      RefineUntilStable(colours, pair_features);
    }
  }
  std::vector<int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return colours[static_cast<size_t>(a)] < colours[static_cast<size_t>(b)];
  });
  return order;
}

}  // namespace skerry
