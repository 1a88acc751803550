#include "kernels/group/ring_group.h"

#include <catch2/catch.hpp>

#include "tests/kernels/members.h"

namespace skerry {
namespace {

// Short, as everything that is expected of those who wait is an error.
constexpr Duration kImpatience = Duration::Millis(2);

using Operation = absl::Status (*)(Group&, Values&);
struct NamedOperation {
  const char* name;
  Operation run;
};
const NamedOperation kOperations[] = {
    {"all-reduce", [](Group& g, Values& v) { return g.AllReduce(v.data(), std::ssize(v)); }},
    {"reduce-scatter",
     [](Group& g, Values& v) { return g.ReduceScatter(v.data(), std::ssize(v)); }},
    {"all-gather", [](Group& g, Values& v) { return g.AllGather(v.data(), std::ssize(v)); }},
    {"broadcast",
     [](Group& g, Values& v) { return g.Broadcast(v.data(), std::ssize(v), g.size() / 2); }},
    {"reduce-scatter of a range",
     [](Group& g, Values& v) {
       return g.ReduceScatterOf(v.data(), std::ssize(v), {std::ssize(v) / 3, std::ssize(v) / 2});
     }},
};

// The same operation at every member; returns how it ended for each.
std::vector<absl::Status> RunAll(const Groups& groups, std::vector<Values>& values,
                                 Operation operation) {
  return OnThreads(groups.size(), [&](size_t r) { return operation(*groups[r], values[r]); });
}

bool AllOk(const std::vector<absl::Status>& results) {
  return std::all_of(results.begin(), results.end(), [](const auto& s) { return s.ok(); });
}

// Whoever is left makes a new ring, which works.
void CheckReformed(int32_t members, int64_t n) {
  std::vector<Values> values = Brought(members, n);
  const Values sum = RingSum(values);
  const Groups ring = MakeThreadRing(members);
  REQUIRE(AllOk(RunAll(ring, values, kOperations[0].run)));
  for (const Values& each : values) CHECK(each == sum);
}

// How many calls the victim makes when nothing befalls it: each is a step at which it may.
int CallsOf(int32_t members, int32_t victim, int64_t n, Operation operation) {
  std::vector<Values> values = Brought(members, n);
  const FaultyRing ring = MakeFaultyRing(members, victim, {}, kGroupPatience);
  REQUIRE(AllOk(RunAll(ring.groups, values, operation)));
  return ring.fault->calls;
}

}  // namespace

TEST_CASE("Ring: an all-reduce is the sum in the order the header states, bit for bit", "[group]") {
  const int32_t members = GENERATE(range(1, 10));
  const int64_t n = GENERATE(0, 1, 2, 7, 8, 9, 1000, 70'001);
  const std::vector<Values> brought = Brought(members, n);
  const Values sum = RingSum(brought);
  const Groups ring = MakeThreadRing(members);
  for (int round = 0; round < 3; ++round) {
    std::vector<Values> values = brought;
    REQUIRE(AllOk(RunAll(ring, values, kOperations[0].run)));
    for (const Values& each : values) REQUIRE(each == sum);
  }
}

TEST_CASE("Ring: reduce-scatter and all-gather are the halves of an all-reduce", "[group]") {
  const int32_t members = GENERATE(range(1, 10));
  const int64_t n = GENERATE(1, 5, 9, 4099);
  const std::vector<Values> brought = Brought(members, n);
  const Values sum = RingSum(brought);
  const Groups ring = MakeThreadRing(members);
  std::vector<Values> values = brought;
  REQUIRE(AllOk(RunAll(ring, values, kOperations[1].run)));
  for (int32_t r = 0; r < members; ++r) {
    const GroupPart part = PartOf(n, members, r);
    Values& mine = values[static_cast<size_t>(r)];
    for (int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<size_t>(i);
      const bool is_mine = i >= part.first && i < part.first + part.size;
      if (is_mine) REQUIRE(mine[at] == sum[at]);
      if (!is_mine) mine[at] = NAN;  // nobody may need it
    }
  }
  REQUIRE(AllOk(RunAll(ring, values, kOperations[2].run)));
  for (const Values& each : values) CHECK(each == sum);
}

TEST_CASE("Ring: ranges that share out all values have the bits of one reduce-scatter", "[group]") {
  const int32_t members = GENERATE(range(1, 6));
  const int64_t n = GENERATE(1, 9, 4099);
  const std::vector<Values> brought = Brought(members, n);
  const Values sum = RingSum(brought);
  const Groups ring = MakeThreadRing(members);
  std::vector<Values> values = brought;
  const std::vector<int64_t> ends = {n, n - n / 5, n / 2, n / 2, n / 7, 0};  // one is empty
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    const GroupPart range = {ends[i + 1], ends[i] - ends[i + 1]};
    std::vector<Values> before = values;
    REQUIRE(AllOk(OnThreads(ring.size(), [&](size_t r) {
      return ring[r]->ReduceScatterOf(values[r].data(), n, range);
    })));
    for (size_t r = 0; r < ring.size(); ++r) {
      std::copy_n(values[r].begin() + range.first, range.size, before[r].begin() + range.first);
      CHECK(before[r] == values[r]);  // it touched no others
    }
  }
  for (int32_t r = 0; r < members; ++r) {
    const GroupPart part = PartOf(n, members, r);
    const auto& mine = values[static_cast<size_t>(r)];
    CHECK(std::equal(mine.begin() + part.first, mine.begin() + part.first + part.size,
                     sum.begin() + part.first));
  }
}

TEST_CASE("Ring: a broadcast from any member, of many pieces too", "[group]") {
  const int32_t members = GENERATE(range(1, 10));
  const int64_t n = GENERATE(0, 3, 2 * Channel::kPieceMax + 5);
  if (n > 1000 && members % 4 != 1) return;  // large ones take their time
  const Groups ring = MakeThreadRing(members);
  for (int32_t root = 0; root<members; root += n> 1000 ? 4 : 1) {
    std::vector<Values> values = Brought(members, n);
    const Values wanted = values[static_cast<size_t>(root)];
    REQUIRE(AllOk(OnThreads(
        ring.size(), [&](size_t r) { return ring[r]->Broadcast(values[r].data(), n, root); })));
    for (const Values& each : values) REQUIRE(each == wanted);
  }
}

TEST_CASE("Ring: from each member to each other one", "[group]") {
  const int32_t members = GENERATE(2, 3, 9);
  constexpr int64_t kValues = 501;
  const std::vector<Values> brought = Brought(members, kValues);
  const Groups ring = MakeThreadRing(members);
  for (int32_t away = 1; away < members; ++away) {
    std::vector<Values> got(static_cast<size_t>(members), Values(kValues));
    REQUIRE(AllOk(OnThreads(ring.size(), [&](size_t r) {
      const auto rank = static_cast<int32_t>(r);
      const int32_t to = (rank + away) % members, from = (rank + members - away) % members;
      const auto send = [&] { return ring[r]->Send(brought[r].data(), kValues, to); };
      const auto receive = [&] { return ring[r]->Receive(got[r].data(), kValues, from); };
      // Where senders wait for each other in a circle, one of them receives first.
      if (rank >= away) {
        SKERRY_RETURN_IF_ERROR(receive());
        return send();
      }
      SKERRY_RETURN_IF_ERROR(send());
      return receive();
    })));
    for (int32_t r = 0; r < members; ++r) {
      const auto from = static_cast<size_t>((r + members - away) % members);
      REQUIRE(got[static_cast<size_t>(r)] == brought[from]);
    }
  }
}

TEST_CASE("Ring: a member that dies at any step is an error at all others", "[group][error]") {
  const int32_t members = GENERATE(range(2, 10));
  const NamedOperation& operation =
      GENERATE(from_range(std::begin(kOperations), std::end(kOperations)));
  constexpr int64_t kValues = 4099;
  const int32_t victim = members / 3;
  const int calls = CallsOf(members, victim, kValues, operation.run);
  REQUIRE(calls >= 1);
  for (int at = 0; at < calls; ++at) {
    INFO(operation.name << " of " << members << ", death at call " << at << " of " << calls);
    std::vector<Values> values = Brought(members, kValues);
    // With all patience: whoever waited for it would be seen as a test that hangs.
    const FaultyRing ring = MakeFaultyRing(
        members, victim, {.kind = Fault::Kind::kDeath, .at_call = at}, Duration::Seconds(1000));
    auto results = RunAll(ring.groups, values, operation.run);
    REQUIRE_FALSE(results[static_cast<size_t>(victim)].ok());
    // What was over for a member before stays right; the next operation is an error for everybody.
    results = RunAll(ring.groups, values, operation.run);
    for (const absl::Status& result : results) REQUIRE(absl::IsAborted(result));
  }
  CheckReformed(members - 1, kValues);
}

TEST_CASE("Ring: a member that stops at any step is an error at all others, and goes on to one",
          "[group][error]") {
  const int32_t members = GENERATE(2, 3, 5, 9);
  const NamedOperation& operation =
      GENERATE(from_range(std::begin(kOperations), std::end(kOperations)));
  constexpr int64_t kValues = 4099;
  const int32_t victim = members / 3;
  const int calls = CallsOf(members, victim, kValues, operation.run);
  for (int at = 0; at < calls; ++at) {
    INFO(operation.name << " of " << members << ", stops at call " << at << " of " << calls);
    std::vector<Values> values = Brought(members, kValues);
    std::latch resumes(members - 1);
    const FaultyRing ring = MakeFaultyRing(
        members, victim, {.kind = Fault::Kind::kStop, .at_call = at, .resumes = &resumes},
        kImpatience);
    const auto results = OnThreads(ring.groups.size(), [&](size_t r) {
      // Again: a member whose part was over when another stopped finds out in a later one.
      absl::Status status;
      for (int times = 0; status.ok() && times < 100; ++times) {
        status = operation.run(*ring.groups[r], values[r]);
      }
      if (static_cast<int32_t>(r) != victim) resumes.count_down();
      return status;
    });
    for (const absl::Status& result : results) {
      REQUIRE((absl::IsAborted(result) || absl::IsDeadlineExceeded(result)));
    }
  }
  CheckReformed(members - 1, kValues);
}

TEST_CASE("Ring: a member that leaves, or gives up, is named to all others", "[group][error]") {
  const int32_t members = GENERATE(2, 3, 9);
  Groups ring = MakeThreadRing(members, Duration::Seconds(1000));
  std::vector<Values> values = Brought(members, 100);
  const bool gives_up = GENERATE(true, false);
  const auto results = OnThreads(ring.size(), [&](size_t r) -> absl::Status {
    if (r != 1) return ring[r]->AllReduce(values[r].data(), 100);
    if (gives_up) ring[1]->Abort(ResourceExhausted("the device is full"));
    ring[1].reset();
    return absl::OkStatus();
  });
  for (size_t r = 0; r < results.size(); ++r) {
    if (r == 1) continue;
    INFO(results[r].ToString());
    CHECK_FALSE(results[r].ok());
    const std::string text = ErrorText(results[r]);
    CHECK(text == absl::StrFormat("member 1 of %d: %s", members,
                                  gives_up ? "the device is full" : "it has left"));
  }
}

TEST_CASE("Ring: sends to a member that never receives end", "[group][error]") {
  const Groups ring = MakeThreadRing(3, kImpatience);
  const Values values(10, 1.0f);
  CHECK(absl::IsDeadlineExceeded(ring[0]->Send(values.data(), 10, 2)));
  Values got(10);
  CHECK(absl::IsDeadlineExceeded(ring[1]->Receive(got.data(), 10, 0)));  // told why by member 0
  CHECK_FALSE(ring[2]->AllReduce(got.data(), 10).ok());
}

}  // namespace skerry
