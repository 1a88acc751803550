#include "kernels/group/sums_beside.h"

#include <catch2/catch.hpp>

#include "tests/kernels/members.h"

namespace skerry {
namespace {

absl::Status Ready(size_t) {
  return absl::OkStatus();
}

}  // namespace

TEST_CASE("SumsBeside: sums are made in their order, each when all devices are ready", "[group]") {
  constexpr size_t kDevices = 3;
  constexpr int64_t kValues = 1000;
  const std::vector<Values> brought = Brought(kDevices, kValues);
  const Groups ring = MakeThreadRing(kDevices);
  std::vector<Values> values(kDevices);
  const auto sum = [&](size_t i) { return ring[i]->AllReduce(values[i].data(), kValues); };
  std::latch computes(1);
  SumsBeside sums(kDevices);
  sums.Begin(
      [&](size_t i) {
        if (i == 1) computes.wait();
        values[i] = brought[i];
        return absl::OkStatus();
      },
      sum);
  sums.Begin(Ready, sum);
  computes.count_down();  // who began them did not wait
  REQUIRE(sums.EndAll().ok());
  const Values once = RingSum(brought);
  const Values twice = RingSum(std::vector<Values>(kDevices, once));
  for (const Values& each : values) CHECK(each == twice);
}

TEST_CASE("SumsBeside: the first error is everybody's, and nothing is done after it",
          "[group][error]") {
  const bool hangs = GENERATE(false, true);
  const Groups ring = MakeThreadRing(2, Duration::Millis(hangs ? 2 : 1'000'000));
  std::vector<Values> values(2, Values(100, 1.0f));
  std::latch others_failed(1);
  std::atomic<int> made = 0;
  SumsBeside sums(2);
  const auto sum = [&](size_t i) -> absl::Status {
    if (i == 1 && made >= 2) {
      if (hangs) others_failed.wait();
      ring[i]->Abort(DataLoss("it has lost its memory"));
    }
    absl::Status status = ring[i]->AllReduce(values[i].data(), 100);
    if (i == 0 && !status.ok()) others_failed.count_down();
    ++made;
    return status;
  };
  for (int i = 0; i < 4; ++i) sums.Begin(Ready, sum);
  const absl::Status status = sums.EndAll();
  CHECK((hangs ? absl::IsDeadlineExceeded(status) : absl::IsDataLoss(status)));
  CHECK(made == 4);
  sums.Begin(Ready, sum);
  CHECK(sums.EndAll() == status);
  CHECK(made == 4);
}

TEST_CASE("SumsBeside: who leaves waits for what is under way", "[group]") {
  std::atomic<int> made = 0;
  {
    SumsBeside sums(2);
    for (int i = 0; i < 10; ++i)
      sums.Begin(Ready, [&](size_t) -> absl::Status {
        ++made;
        return absl::OkStatus();
      });
  }
  CHECK(made == 20);
}

}  // namespace skerry
