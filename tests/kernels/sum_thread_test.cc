#include "kernels/group/sum_thread.h"

#include <catch2/catch.hpp>

#include "tests/kernels/members.h"

namespace skerry {

TEST_CASE("SumThread: sums begun one after the other are the group's, in their order", "[group]") {
  const int32_t members = GENERATE(1, 2, 3, 5);
  const int64_t n = GENERATE(1, 1000, 70'001);
  constexpr size_t kArrays = 3;  // two under way, in the memory of three
  const std::vector<Values> brought = Brought(members, n);
  const Values once = RingSum(brought);
  const Values twice = RingSum(std::vector<Values>(static_cast<size_t>(members), once));
  const Groups ring = MakeThreadRing(members);
  const auto done = OnThreads(ring.size(), [&](size_t r) -> absl::Status {
    std::vector<Values> arrays(kArrays, brought[r]);
    SumThread thread(ring[r].get());
    for (size_t round = 0; round < 2 * kArrays; ++round) {
      thread.Begin(arrays[round % kArrays].data(), n);
      if (round > 0) SKERRY_RETURN_IF_ERROR(thread.End());
    }
    SKERRY_RETURN_IF_ERROR(thread.End());
    for (const Values& values : arrays) {
      if (values != twice) return DataLoss("another sum");
    }
    return absl::OkStatus();
  });
  for (const absl::Status& status : done) CHECK(status.ok());
}

TEST_CASE("SumThread: an abort ends what is under way, and all that is begun later",
          "[group][error]") {
  const Groups ring = MakeThreadRing(2);
  Values values(1000, 1.0f);
  SumThread thread(ring[0].get());
  thread.Begin(values.data(), 1000);  // which the other member never does
  thread.Begin(values.data(), 10);
  ring[1]->Abort(absl::CancelledError("it is not wanted"));
  CHECK(absl::IsCancelled(thread.End()));
  CHECK(absl::IsCancelled(thread.End()));
  thread.Begin(values.data(), 10);
  CHECK(absl::IsCancelled(thread.End()));
}

TEST_CASE("SumThread: who leaves with a sum under way waits for its end only", "[group][error]") {
  const Groups ring = MakeThreadRing(2, Duration::Millis(2));
  Values values(1000, 1.0f);
  {
    SumThread thread(ring[0].get());
    thread.Begin(values.data(), 1000);
  }
  CHECK(absl::IsDeadlineExceeded(ring[0]->AllReduce(values.data(), 10)));
}

}  // namespace skerry
