// Splits the work of own kernels over the threads that products use, too.
#pragma once

#include <algorithm>
#include <cstdint>

namespace skerry {

struct Share {
  int64_t first, last;
};

// The part of [0, count) of member `index` of `members`; borders are multiples of `grain`.
inline Share ShareOf(int64_t count, int64_t grain, int index, int members) {
  const int64_t grains = (count + grain - 1) / grain;
  const auto border = [&](int64_t i) { return std::min(count, grains * i / members * grain); };
  return {border(index), border(index + 1)};
}

// Calls body(share, member) once for every member that has something to do, each on a thread of its
// own, and returns when all are done. Which thread does what is fixed, so bits depend on the number
// of members only, and where shares do not meet, not even on that.
template <typename Body>
void InShares(int members, int64_t count, int64_t grain, const Body& body) {
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
