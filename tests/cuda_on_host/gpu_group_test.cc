// The NCCL body of a group, up to NCCL itself, whose functions a library of this project has here.
#include "kernels/plugin/gpu_group.h"

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>

#include "kernels/group/device_group.h"
#include "kernels/plugin/gpu_backend.h"
#include "kernels/plugin/loader.h"
#include "tests/kernels/members.h"

namespace skerry {
namespace {

const GpuTable& FibersTable() {
  setenv("SKERRY_NCCL", SKERRY_FAKE_NCCL, 1);
  const auto table = LoadGpuTable({"", {SKERRY_FIBERS_PLUGIN}});
  REQUIRE(table.ok());
  return **table;
}

// So many GPUs, and a group of them.
struct Gpus {
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<Backend*> pointers;
  Groups groups;

  explicit Gpus(int32_t members, Duration patience = kGroupPatience) {
    for (int32_t r = 0; r < members; ++r) {
      auto backend = CreateGpuBackend(FibersTable(), 0);
      REQUIRE(backend.ok());
      backends.push_back(*std::move(backend));
      pointers.push_back(backends.back().get());
    }
    auto made = MakeGpuGroup(pointers, patience);
    INFO(made.status().ToString());
    REQUIRE(made.ok());
    groups = *std::move(made);
  }
};

// Whole numbers: their sums do not depend on the order, which is NCCL's.
std::vector<Values> Whole(int32_t members, int64_t n) {
  std::vector<Values> all = Brought(members, n);
  for (Values& values : all) {
    for (float& value : values) value = std::round(value);
  }
  return all;
}

Values Sum(const std::vector<Values>& brought) {
  Values sum(brought.front().size());
  for (const Values& values : brought) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  return sum;
}

bool AllOk(const std::vector<absl::Status>& results) {
  for (const absl::Status& result : results) {
    UNSCOPED_INFO(result.ToString());
    if (!result.ok()) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("GPU group: every operation, of any number of members and values", "[cuda][group]") {
  const int32_t members = GENERATE(1, 2, 3, 8);
  const int64_t n = GENERATE(1, 7, 1000);
  const std::vector<Values> brought = Whole(members, n);
  const Values sum = Sum(brought);
  Gpus gpus(members);
  CHECK(gpus.groups[0]->name() == "NCCL 2.28.9 of " + std::to_string(members));
  std::vector<Values> values = brought, parts = brought, copies = brought;
  REQUIRE(AllOk(OnThreads(gpus.groups.size(), [&](size_t r) {
    Group& group = *gpus.groups[r];
    SKERRY_RETURN_IF_ERROR(group.AllReduce(values[r].data(), n));
    SKERRY_RETURN_IF_ERROR(group.ReduceScatter(parts[r].data(), n));
    const GroupPart own = PartOf(n, members, group.rank());
    for (int64_t i = 0; i < n; ++i) {
      const bool is_own = i >= own.first && i < own.first + own.size;
      if (members > 1 && !is_own) parts[r][static_cast<size_t>(i)] = -1;
    }
    SKERRY_RETURN_IF_ERROR(group.AllGather(parts[r].data(), n));
    return group.Broadcast(copies[r].data(), n, members - 1);
  })));
  for (int32_t r = 0; r < members; ++r) {
    const auto at = static_cast<size_t>(r);
    CHECK(values[at] == sum);
    CHECK(parts[at] == sum);
    CHECK(copies[at] == brought.back());
  }
}

TEST_CASE("GPU group: a reduce-scatter of a range touches no other values", "[cuda][group]") {
  const int32_t members = GENERATE(2, 3);
  constexpr int64_t kValues = 1000;
  const std::vector<Values> brought = Whole(members, kValues);
  const Values sum = Sum(brought);
  Gpus gpus(members);
  std::vector<Values> values = brought;
  const GroupPart range =
      GENERATE(GroupPart{0, 1000}, GroupPart{100, 500}, GroupPart{700, 250}, GroupPart{10, 0});
  REQUIRE(AllOk(OnThreads(gpus.groups.size(), [&](size_t r) {
    return gpus.groups[r]->ReduceScatterOf(values[r].data(), kValues, range);
  })));
  for (int32_t r = 0; r < members; ++r) {
    const auto at = static_cast<size_t>(r);
    const GroupPart own = Common(PartOf(kValues, members, r), range);
    Values expected = brought[at];
    std::copy_n(values[at].begin() + range.first, range.size, expected.begin() + range.first);
    CHECK(values[at] == expected);
    CHECK(std::equal(values[at].begin() + own.first, values[at].begin() + own.first + own.size,
                     sum.begin() + own.first));
  }
}

TEST_CASE("GPU group: from one member to another", "[cuda][group]") {
  Gpus gpus(3);
  const std::vector<Values> brought = Whole(3, 50);
  Values got(50);
  REQUIRE(AllOk(OnThreads(3, [&](size_t r) {
    if (r == 1) return absl::OkStatus();
    return r == 0 ? gpus.groups[0]->Send(brought[0].data(), 50, 2)
                  : gpus.groups[2]->Receive(got.data(), 50, 0);
  })));
  CHECK(got == brought[0]);
}

TEST_CASE("GPU group: a member that stops, dies or never comes is an error at all others",
          "[cuda][group][error]") {
  enum class End { kStops, kDies, kGivesUp, kNeverComes };
  const End end = GENERATE(End::kStops, End::kDies, End::kGivesUp, End::kNeverComes);
  const int after = GENERATE(0, 1, 2);  // operations
  if (end == End::kNeverComes && after > 0) return;
  // Short where an error is all that those who wait can get; who dies or gives up is told at once.
  const bool is_silent = end == End::kStops || end == End::kNeverComes;
  const Duration patience = is_silent ? Duration::Millis(30) : Duration::Seconds(1000);
  Gpus gpus(4, patience);
  if (end == End::kNeverComes) {
    // Three of four, by an id of their own.
    const auto table = GroupTableOf(*gpus.pointers[0]);
    REQUIRE(table.ok());
    const auto id = MakeGroupId(**table);
    REQUIRE(id.ok());
    for (int32_t r = 0; r < 3; ++r) {
      auto joined = JoinGpuGroup(**table, GpuOf(*gpus.pointers[static_cast<size_t>(r)]).device, *id,
                                 r, 4, patience);
      REQUIRE(joined.ok());
      gpus.groups[static_cast<size_t>(r)] = *std::move(joined);
    }
  }
  std::vector<Values> values = Whole(4, 100);
  const auto results = OnThreads(4, [&](size_t r) -> absl::Status {
    for (int i = 0;; ++i) {
      if (r == 3 && i == after) break;
      SKERRY_RETURN_IF_ERROR(gpus.groups[r]->AllReduce(values[r].data(), 100));
    }
    if (end == End::kDies) gpus.groups[3].reset();
    if (end == End::kGivesUp) {
      gpus.groups[3]->Abort(ResourceExhausted("full"));
      return gpus.groups[3]->AllReduce(values[r].data(), 100);
    }
    return absl::OkStatus();
  });
  for (size_t r = 0; r < 3; ++r) {
    INFO(results[r].ToString());
    CHECK((absl::IsAborted(results[r]) || absl::IsDeadlineExceeded(results[r])));
    CHECK_FALSE(gpus.groups[r]->AllReduce(values[r].data(), 100).ok());  // and stays one
  }
  if (end == End::kGivesUp) CHECK(ErrorText(results[3]) == "member 3 of 4: full");
  if (end == End::kStops) CHECK_FALSE(gpus.groups[3]->AllReduce(values[3].data(), 100).ok());

  // Whoever is left makes a new one, of the same devices.
  gpus.pointers.pop_back();
  const auto again = MakeGpuGroup(gpus.pointers, kGroupPatience);
  REQUIRE(again.ok());
  std::vector<Values> rest = Whole(3, 100);
  const Values sum = Sum(rest);
  REQUIRE(
      AllOk(OnThreads(3, [&](size_t r) { return (*again)[r]->AllReduce(rest[r].data(), 100); })));
  CHECK(rest[2] == sum);
}

TEST_CASE("Device group: GPUs take NCCL, other mixtures the ring through host memory",
          "[cuda][group]") {
  Gpus gpus(2);
  gpus.groups.clear();
  const auto nccl = MakeDeviceGroup(gpus.pointers);
  REQUIRE(nccl.ok());
  CHECK(nccl->front()->name() == "NCCL 2.28.9 of 2");

  const auto cpu = CreateReferenceBackend();
  const std::vector<Backend*> mixture = {cpu.get(), gpus.pointers[0], gpus.pointers[1]};
  CHECK(absl::IsUnavailable(MakeGpuGroup(mixture, kGroupPatience).status()));
  const auto ring = MakeDeviceGroup(mixture);
  REQUIRE(ring.ok());
  CHECK((*ring)[0]->name() == "ring of 3 in this process");
  CHECK((*ring)[1]->name() == "ring of 3 in this process, through host memory");
  std::vector<Values> values = Brought(3, 100);
  const Values sum = RingSum(values);
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (Backend* backend : mixture) buffers.push_back(*backend->Allocate(100));
  REQUIRE(AllOk(OnThreads(3, [&](size_t r) {
    mixture[r]->Upload(values[r], buffers[r]->data());
    SKERRY_RETURN_IF_ERROR((*ring)[r]->AllReduce(buffers[r]->data(), 100));
    SKERRY_RETURN_IF_ERROR((*ring)[r]->AllGather(buffers[r]->data(), 100));
    SKERRY_RETURN_IF_ERROR((*ring)[r]->Broadcast(buffers[r]->data(), 100, 1));
    mixture[r]->Download(buffers[r]->data(), values[r]);
    return absl::OkStatus();
  })));
  for (const Values& each : values) CHECK(each == sum);
}

TEST_CASE("Device group: GPUs between which NCCL does not start take the ring",
          "[cuda][group][error]") {
  Gpus gpus(2);
  gpus.groups.clear();
  setenv("SKERRY_FAKE_NCCL_MEETS_NOBODY", "1", 1);
  const absl::Status nccl = MakeGpuGroup(gpus.pointers, kGroupPatience).status();
  const auto ring = MakeDeviceGroup(gpus.pointers);
  unsetenv("SKERRY_FAKE_NCCL_MEETS_NOBODY");
  CHECK(absl::IsUnavailable(nccl));
  REQUIRE(ring.ok());
  CHECK((*ring)[0]->name() == "ring of 2 in this process, through host memory");
}

TEST_CASE("GPU group: the plug-in of this build has the table, and NCCL gives an id",
          "[cuda][group]") {
  void* library = dlopen(SKERRY_REAL_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    WARN("not built, or without its libraries: " << dlerror());
    return;
  }
  const auto table_of =
      reinterpret_cast<GpuGroupTableFunction>(dlsym(library, kGpuGroupTableSymbol));
  REQUIRE(table_of != nullptr);
  CHECK(table_of(kGpuGroupTableVersion + 1) == nullptr);
  const GpuGroupTable* table = table_of(kGpuGroupTableVersion);
  REQUIRE(table != nullptr);
  CHECK(table->bytes == sizeof(GpuGroupTable));
  unsetenv("SKERRY_NCCL");
  GpuText why = {};
  const int32_t version = table->library(&why);
  if (version == 0) {
    CHECK_THAT(std::string(why.text), Catch::Contains("NCCL"));
    WARN(why.text);
    return;
  }
  CHECK(version >= 21400);  // the first whose communicators need not block
  GpuGroupId first = {}, second = {};
  REQUIRE(table->make_id(&first, &why));
  REQUIRE(table->make_id(&second, &why));
  CHECK(std::memcmp(first.bytes, second.bytes, sizeof(first.bytes)) != 0);
}

}  // namespace skerry
