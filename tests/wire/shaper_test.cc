#include "wire/shaper.h"

#include <catch2/catch.hpp>

namespace skerry {
namespace {

const NodeId kNear = TestNodeId(1);
const NodeId kFar = TestNodeId(2);

Instant At(int64_t millis) {
  return Instant() + Duration::Millis(millis);
}

OutgoingFrame Make(const NodeId& to, TrafficClass traffic, size_t bytes) {
  return {to, traffic, Bytes(bytes), nullptr};
}

// When each frame arrives, asked for at exactly the times the shaper names.
struct Arrival {
  int64_t millis;
  NodeId to;
  size_t bytes;
  bool operator==(const Arrival&) const = default;
};
std::vector<Arrival> RunToEnd(Shaper& shaper) {
  std::vector<Arrival> arrivals;
  while (const auto due = shaper.NextDue()) {
    std::vector<OutgoingFrame> arrived;
    shaper.Advance(*due, arrived);
    for (const auto& frame : arrived)
      arrivals.push_back({due->nanos() / 1'000'000, frame.to, frame.envelope.size()});
  }
  return arrivals;
}

// 1000 bytes per millisecond, 40 ms one way.
constexpr LinkShape kLink{Duration::Millis(40), 1e6};

TEST_CASE("Shaper: a frame takes its bytes over the rate and then the delay", "[wire][shaper]") {
  Shaper shaper;
  shaper.SetLink(kNear, kLink);
  shaper.Enqueue(At(0), Make(kNear, TrafficClass::kControl, 10'000));

  std::vector<OutgoingFrame> arrived;
  shaper.Advance(At(49), arrived);
  CHECK(arrived.empty());
  CHECK(shaper.Waiting(kNear) == 1);
  shaper.Advance(At(50), arrived);
  CHECK(arrived.size() == 1);
  CHECK(shaper.Waiting(kNear) == 0);
  CHECK_FALSE(shaper.NextDue());
}

TEST_CASE("Shaper: frames of one peer queue for its line, not for another's", "[wire][shaper]") {
  Shaper shaper;
  shaper.SetLink(kNear, kLink);
  shaper.SetLink(kFar, kLink);
  shaper.Enqueue(At(0), Make(kNear, TrafficClass::kDelta, 10'000));
  shaper.Enqueue(At(0), Make(kNear, TrafficClass::kDelta, 20'000));
  shaper.Enqueue(At(0), Make(kFar, TrafficClass::kDelta, 5'000));

  CHECK(RunToEnd(shaper) ==
        std::vector<Arrival>{{45, kFar, 5'000}, {50, kNear, 10'000}, {70, kNear, 20'000}});
}

TEST_CASE("Shaper: a common uplink makes peers share it", "[wire][shaper]") {
  Shaper shaper(2e6);  // twice the rate of one line
  shaper.SetLink(kNear, kLink);
  shaper.SetLink(kFar, kLink);
  shaper.Enqueue(At(0),
                 Make(kNear, TrafficClass::kDelta, 10'000));        // uplink until 5, line until 10
  shaper.Enqueue(At(0), Make(kFar, TrafficClass::kDelta, 10'000));  // starts at 5

  CHECK(RunToEnd(shaper) == std::vector<Arrival>{{50, kNear, 10'000}, {55, kFar, 10'000}});
}

TEST_CASE("Shaper: control overtakes queued bulk, and never what is under way", "[wire][shaper]") {
  Shaper shaper;
  shaper.SetLink(kNear, kLink);
  shaper.Enqueue(At(0), Make(kNear, TrafficClass::kState, 10'000));
  shaper.Enqueue(At(1), Make(kNear, TrafficClass::kState, 11'000));
  shaper.Enqueue(At(2), Make(kNear, TrafficClass::kDelta, 12'000));
  shaper.Enqueue(At(3), Make(kNear, TrafficClass::kActivation, 13'000));
  shaper.Enqueue(At(4), Make(kNear, TrafficClass::kControl, 1'000));

  CHECK(RunToEnd(shaper) == std::vector<Arrival>{{50, kNear, 10'000},
                                                 {51, kNear, 1'000},
                                                 {64, kNear, 13'000},
                                                 {76, kNear, 12'000},
                                                 {87, kNear, 11'000}});
}

TEST_CASE("Shaper: being asked late loses no rate", "[wire][shaper]") {
  Shaper shaper;
  shaper.SetLink(kNear, kLink);
  for (int i = 0; i < 10; ++i) shaper.Enqueue(At(0), Make(kNear, TrafficClass::kDelta, 10'000));

  std::vector<OutgoingFrame> arrived;
  shaper.Advance(At(140), arrived);  // the tenth is through at 100, here at 140
  CHECK(arrived.size() == 10);
}

TEST_CASE("Shaper: an idle line does not save up rate", "[wire][shaper]") {
  Shaper shaper;
  shaper.SetLink(kNear, kLink);
  shaper.Enqueue(At(0), Make(kNear, TrafficClass::kDelta, 1'000));
  RunToEnd(shaper);
  shaper.Enqueue(At(1000), Make(kNear, TrafficClass::kDelta, 30'000));

  CHECK(RunToEnd(shaper) == std::vector<Arrival>{{1070, kNear, 30'000}});
}

TEST_CASE("Shaper: a line without a rate has only its delay", "[wire][shaper]") {
  Shaper shaper;
  shaper.SetLink(kNear, {Duration::Millis(5), 0});
  shaper.Enqueue(At(0), Make(kNear, TrafficClass::kDelta, 1 << 20));
  CHECK(RunToEnd(shaper) == std::vector<Arrival>{{5, kNear, 1 << 20}});
}

TEST_CASE("Shaper: what is forgotten is handed back and arrives no more", "[wire][shaper]") {
  Shaper shaper;
  shaper.SetLink(kNear, kLink);
  shaper.SetLink(kFar, kLink);
  shaper.Enqueue(At(0), Make(kNear, TrafficClass::kDelta, 1'000));
  shaper.Enqueue(At(0), Make(kNear, TrafficClass::kControl, 2'000));
  shaper.Enqueue(At(0), Make(kFar, TrafficClass::kControl, 3'000));

  CHECK(shaper.Forget(kNear).size() == 2);
  CHECK(RunToEnd(shaper) == std::vector<Arrival>{{43, kFar, 3'000}});
}

TEST_CASE("Shaper: classes follow the messages", "[wire][shaper]") {
  CHECK(ClassOf(Heartbeat{}) == TrafficClass::kControl);
  CHECK(ClassOf(Ping{}) == TrafficClass::kControl);
  CHECK(ClassOf(Ping{1, 10}) == TrafficClass::kData);
  CHECK(ClassOf(Gradient{}) == TrafficClass::kActivation);
  CHECK(ClassOf(Delta{}) == TrafficClass::kDelta);
  CHECK(ClassOf(ObjectChunk{}) == TrafficClass::kState);
}

}  // namespace
}  // namespace skerry
