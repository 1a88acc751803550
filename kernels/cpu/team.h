// Splits the work of own kernels over the threads that products use, too.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace skerry {

struct Share {
  int64_t first, last;
};

// The part `index` of `count` things cut into `parts`; borders are multiples of `grain`.
inline Share ShareOf(int64_t count, int64_t grain, int64_t index, int64_t parts) {
  const int64_t grains = (count + grain - 1) / grain;
  const auto border = [&](int64_t i) { return std::min(count, grains * i / parts * grain); };
  return {border(index), border(index + 1)};
}

// Calls body(share, member) for shares that make up [0, count), `member` < `members` being nobody
// else at the time, and returns when all are done. A member takes the next share when it is done
// with one, so that nobody waits long for a member whose processor somebody else holds. For work of
// which shares do not meet: bits do not depend on who does what.
template <typename Body>
void InShares(int members, int64_t count, int64_t grain, const Body& body) {
  if (members <= 1 || count <= grain) {
    if (count > 0) body(Share{0, count}, 0);
    return;
  }
  constexpr int64_t kSharesEach = 4;
  const int64_t shares = std::min(members * kSharesEach, (count + grain - 1) / grain);
#pragma omp parallel num_threads(members)
  {
    const int member = omp_get_thread_num();
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < shares; ++i) body(ShareOf(count, grain, i, shares), member);
  }
}

// As InShares, with one share for each member, always the same: for sums that members keep apart
// until they are added in order, so that bits depend on their number only.
template <typename Body>
void InFixedShares(int members, int64_t count, int64_t grain, const Body& body) {
  if (members <= 1 || count <= grain) {
    if (count > 0) body(Share{0, count}, 0);
    return;
  }
#pragma omp parallel for schedule(static, 1) num_threads(members)
  for (int member = 0; member < members; ++member) {
    const Share share = ShareOf(count, grain, member, members);
    if (share.first < share.last) body(share, member);
  }
}

}  // namespace skerry
