// Lanes between nodes over the NCCL body, up to NCCL itself.
#include "kernels/plugin/gpu_lane.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <optional>
#include <thread>

#include "common/status.h"

namespace skerry {
namespace {

using State = GroupLane::State;
using Values = std::vector<float>;

std::unique_ptr<GpuLanes> OpenLanes() {
  setenv("SKERRY_CUDA_PLUGIN", SKERRY_FIBERS_PLUGIN, 1);
  setenv("SKERRY_NCCL", SKERRY_FAKE_NCCL, 1);
  auto lanes = GpuLanes::Open(0);
  INFO(lanes.status().ToString());
  REQUIRE(lanes.ok());
  return *std::move(lanes);
}

State Ended(GroupLane& lane) {
  while (lane.Look().state == State::kUnderWay) std::this_thread::yield();
  return lane.Look().state;
}

struct Members {
  std::unique_ptr<GpuLanes> all = OpenLanes();
  std::vector<std::unique_ptr<GroupLane>> lanes;
  std::vector<std::shared_ptr<Values>> own, sums;

  explicit Members(int32_t size, size_t values) {
    GroupLane::Id id = {};
    for (int32_t r = 0; r < size; ++r) {
      lanes.push_back(all->Make());
      if (r == 0) {
        lanes[0]->MakeId();
        REQUIRE(Ended(*lanes[0]) == State::kDone);
        id = lanes[0]->id();
      }
      lanes.back()->Meet(id, r, size);
      own.push_back(std::make_shared<Values>(values, static_cast<float>(1 << r)));
      own.back()->back() = 3;
      sums.push_back(std::make_shared<Values>());
    }
  }
  void Sum(size_t r) { lanes[r]->Sum(own[r], sums[r], 0, std::ssize(*own[r])); }
};

}  // namespace

TEST_CASE("GPU lane: sums of several members, one after the other", "[cuda][group]") {
  const int32_t size = GENERATE(2, 3, 5);
  // More than a piece has, of two.
  const size_t values = GENERATE(size_t{1}, size_t{1000}, (size_t{16} << 20) + 7);
  if (values > 1000 && size != 2) return;
  Members members(size, values);
  for (int round = 0; round < 2; ++round) {
    for (size_t r = 0; r < members.lanes.size(); ++r) members.Sum(r);
    for (size_t r = 0; r < members.lanes.size(); ++r) {
      INFO(members.lanes[r]->Words());
      REQUIRE(Ended(*members.lanes[r]) == State::kDone);
      const Values& sum = *members.sums[r];
      REQUIRE(sum.size() == values);
      CHECK(sum.back() == 3.0F * static_cast<float>(size));
      if (values > 1) {
        const auto all = static_cast<float>((1 << size) - 1);
        CHECK(std::all_of(sum.begin(), sum.end() - 1, [all](float v) { return v == all; }));
      }
      CHECK((*members.own[r])[0] != sum[0]);  // is let alone
    }
  }
  CHECK(members.lanes[0]->Words() == "NCCL 2.28.9 of " + std::to_string(size));
  CHECK(members.lanes[0]->Look().moved >= (values > 1000 ? 4 : 2));
}

TEST_CASE("GPU lane: who leaves fails the others, and nobody waits for it",
          "[cuda][group][error]") {
  Members members(3, 100);
  members.Sum(0);
  members.Sum(1);
  CHECK(members.lanes[0]->Look().state == State::kUnderWay);
  REQUIRE(Ended(*members.lanes[2]) == State::kDone);  // it has met them
  members.lanes[2].reset();
  CHECK(Ended(*members.lanes[0]) == State::kFailed);
  CHECK(Ended(*members.lanes[1]) == State::kFailed);
  CHECK_THAT(members.lanes[0]->Words(), Catch::Contains("NCCL"));
  members.Sum(0);  // and stays so
  CHECK(Ended(*members.lanes[0]) == State::kFailed);
}

TEST_CASE("GPU lane: a lane that is given up while it sums leaves what it was given alone",
          "[cuda][group][error]") {
  Members members(2, 100);
  members.Sum(0);
  members.lanes.clear();
  members.all.reset();  // its threads have ended
  CHECK(members.own[0].use_count() == 1);
  CHECK(members.sums[0].use_count() == 1);
}

TEST_CASE("GPU lane: on a GPU that is not there there is none, and why", "[cuda][group][error]") {
  OpenLanes();
  const auto missing = GpuLanes::Open(99);
  CHECK(absl::IsUnavailable(missing.status()));
  CHECK_THAT(ErrorText(missing.status()), Catch::Contains("99"));
}

}  // namespace skerry
