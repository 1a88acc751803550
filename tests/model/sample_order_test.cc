#include "model/sample_order.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

namespace skerry {
namespace {

std::vector<int64_t> Sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<int64_t> UpTo(int64_t size) {
  std::vector<int64_t> values(static_cast<size_t>(size));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

std::vector<int64_t> Images(const KeyedPermutation& permutation, int64_t size) {
  std::vector<int64_t> images;
  for (int64_t i = 0; i < size; ++i) images.push_back(permutation(i));
  return images;
}

// Windows in the order in which training reads them.
std::vector<int64_t> Walk(const SampleOrder& order, int64_t steps, int32_t microbatches,
                          int32_t sequences) {
  std::vector<int64_t> windows;
  for (int64_t step = 0; step < steps; ++step) {
    for (int32_t m = 0; m < microbatches; ++m) {
      for (int32_t s = 0; s < sequences; ++s) windows.push_back(order.WindowOf({step, m, s}));
    }
  }
  return windows;
}

}  // namespace

TEST_CASE("KeyedPermutation: is a bijection for every size", "[model]") {
  const int64_t size =
      GENERATE(range<int64_t>(1, 70), values<int64_t>({255, 256, 257, 1000, 4097}));
  const uint64_t key = GENERATE(uint64_t{0}, uint64_t{12345});

  CHECK(Sorted(Images(KeyedPermutation(key, size), size)) == UpTo(size));
}

TEST_CASE("KeyedPermutation: keys give different orders, and none is the identity", "[model]") {
  const auto a = Images(KeyedPermutation(1, 1000), 1000);
  const auto b = Images(KeyedPermutation(2, 1000), 1000);

  CHECK(a != b);
  CHECK(a != UpTo(1000));
  int64_t fixed = 0;
  for (size_t i = 0; i < a.size(); ++i) fixed += a[i] == static_cast<int64_t>(i);
  CHECK(fixed < 10);  // one is expected
}

TEST_CASE("SampleOrder: every window is read exactly once per pass", "[model]") {
  // 3 steps of 4 microbatches of 5 sequences are one pass over 60 windows.
  const SampleOrder order(7, 60, 4, 5);
  const std::vector<int64_t> two_passes = Walk(order, 6, 4, 5);

  const std::vector<int64_t> first(two_passes.begin(), two_passes.begin() + 60);
  const std::vector<int64_t> second(two_passes.begin() + 60, two_passes.end());

  CHECK(Sorted(first) == UpTo(60));
  CHECK(Sorted(second) == UpTo(60));
  CHECK(first != second);
}

TEST_CASE("SampleOrder: a pass may end inside a microbatch", "[model]") {
  const std::vector<int64_t> windows = Walk(SampleOrder(7, 7, 2, 2), 7, 2, 2);  // 28 = 4 passes

  for (int64_t pass = 0; pass < 4; ++pass) {
    const auto begin = windows.begin() + 7 * pass;
    CHECK(Sorted({begin, begin + 7}) == UpTo(7));
  }
}

TEST_CASE("SampleOrder: seeds give different orders, the same seed the same", "[model]") {
  const auto one = Walk(SampleOrder(1, 1000, 8, 4), 4, 8, 4);

  CHECK(one == Walk(SampleOrder(1, 1000, 8, 4), 4, 8, 4));
  CHECK(one != Walk(SampleOrder(2, 1000, 8, 4), 4, 8, 4));
}

}  // namespace skerry
