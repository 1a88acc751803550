#include "kernels/cpu/thread_limit.h"

#include <sched.h>

#include <catch2/catch.hpp>

namespace skerry {

TEST_CASE("Threads: a quota is as many processors as it pays for, rounded up", "[kernels]") {
  CHECK(ProcessorsOfQuota("200000 100000") == 2);
  CHECK(ProcessorsOfQuota("150000 100000") == 2);
  CHECK(ProcessorsOfQuota("50000 100000") == 1);
  CHECK(ProcessorsOfQuota("max 100000") == 0);
  CHECK(ProcessorsOfQuota("-1 100000") == 0);
  CHECK(ProcessorsOfQuota("") == 0);
  CHECK(ProcessorsOfQuota("100000 0") == 0);
}

TEST_CASE("Threads: never more than the affinity mask has", "[kernels]") {
  cpu_set_t before, one;
  REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0);
  CPU_ZERO(&one);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_SET(first, &one);

  CHECK(UsableThreads() <= CPU_COUNT(&before));
  REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
  CHECK(UsableThreads() == 1);
  CHECK(BoundedThreads(0) == 1);
  CHECK(BoundedThreads(5) == 1);
  REQUIRE(sched_setaffinity(0, sizeof(before), &before) == 0);
  CHECK(BoundedThreads(1) == 1);
}

}  // namespace skerry
