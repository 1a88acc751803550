// Whether large packets pass: what is asked, what is made of the answers, who is answered.
#include "wire/transport/path_check.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "scripted_actor.h"
#include "wire/transport/path_asker.h"

namespace skerry {
namespace {

constexpr PathPackets kEthernet{1500, 52};

// Packets of up to so many bytes pass.
PathAnswers Across(int mtu, const PathPackets& packets = kEthernet) {
  PathAnswers answers;
  answers.first = PathAnswer::kWhole;
  answers.large_in_time = mtu >= packets.mtu;
  answers.large = answers.large_in_time ? PathAnswer::kWhole : PathAnswer::kNone;
  for (const int size : SizesToAsk(packets))
    answers.sizes.push_back(size <= mtu ? PathAnswer::kWhole : PathAnswer::kNone);
  return answers;
}

}  // namespace

TEST_CASE("PathCheck: says how large packets may be", "[wire][path]") {
  CHECK(Judge(kEthernet, Across(1500)).is == PathIs::kGood);
  for (const int mtu : {1280, 1400, 1420, 1492}) {
    const PathVerdict verdict = Judge(kEthernet, Across(mtu));
    CHECK((verdict.is == PathIs::kHole && verdict.passes == mtu && verdict.lost > mtu));
  }
  const PathVerdict below = Judge(kEthernet, Across(1495));
  CHECK((below.passes == 1492 && below.lost == 1500));
  // A network of large frames, and a way that takes the usual ones.
  const PathVerdict jumbo = Judge({9000, 52}, Across(1500, {9000, 52}));
  CHECK((jumbo.is == PathIs::kHole && jumbo.passes == 1500 && jumbo.lost == 9000));
}

TEST_CASE("PathCheck: what has other reasons is no black hole", "[wire][path]") {
  CHECK(Judge(kEthernet, {}).is == PathIs::kUnasked);
  PathAnswers answers = Across(1400);
  answers.large = PathAnswer::kShort;
  CHECK(Judge(kEthernet, answers).is == PathIs::kUnasked);
  answers = Across(1400);
  answers.sizes[2] = PathAnswer::kShort;
  CHECK(Judge(kEthernet, answers).is == PathIs::kUnasked);
  answers = Across(1400);
  answers.sizes[2] = PathAnswer::kNone;
  CHECK(Judge(kEthernet, answers).is == PathIs::kLossy);
  CHECK(Judge(kEthernet, Across(100)).is == PathIs::kLossy);
  // All of them pass one by one: late, or not at all.
  answers = Across(1500);
  answers.large_in_time = false;
  CHECK(Judge(kEthernet, answers).is == PathIs::kGood);
  answers.large = PathAnswer::kNone;
  CHECK(Judge(kEthernet, answers).is == PathIs::kLossy);
}

TEST_CASE("PathCheck: questions fill their packets", "[wire][path]") {
  const std::vector<int> sizes = SizesToAsk(kEthernet);
  CHECK(std::is_sorted(sizes.begin(), sizes.end()));
  CHECK((sizes.front() == 576 && sizes.back() == 1500));
  // 42 bytes of CURVE, 14 of the question.
  CHECK(PaddingOfPacket(kEthernet, 1500) == 1500 - 52 - 42 - 14);
  CHECK(PaddingOfPacket(kEthernet, 50) == 0);
  CHECK(PaddingOfSeveral(kEthernet) > 2 * 1500);
  CHECK(PaddingOfSeveral({65536, 52}) == kReachPaddingMax);
}

TEST_CASE("PathDesk: answers within its budget, then without padding, then not at all",
          "[wire][path][security]") {
  PathDesk desk;
  const ReachNonce question{7, false, kReachPaddingMax};
  const Instant start = Instant() + Duration::Seconds(1);
  CHECK_FALSE(desk.AnswerTo(start, {7, true, 0}));
  CHECK(desk.AnswerTo(start, question) == ReachNonce{7, true, kReachPaddingMax});
  double bytes = 0;
  for (int i = 0; i < 100'000; ++i) {
    const auto answer = desk.AnswerTo(start, question);
    if (answer) bytes += static_cast<double>(kReachBytes + answer->padding);
  }
  CHECK(bytes < 1.1 * PathDesk::kBytesPerS);
  CHECK_FALSE(desk.AnswerTo(start, question));
  CHECK(desk.AnswerTo(start + Duration::Millis(100), question) == ReachNonce{7, true, 0});
  CHECK(desk.AnswerTo(start + Duration::Seconds(1), question)->padding == kReachPaddingMax);
}

TEST_CASE("PathAsker: a stranger is answered by a coordinator", "[wire][path][loop]") {
  Process coordinator(1);
  coordinator.Open(coordinator.Options(HostRole::kCoordinator));
  coordinator.Start();
  // Of the machine itself, which takes everything.
  const PathVerdict verdict = AskPath(coordinator.id(), coordinator.loop->endpoint(), kEthernet);
  CHECK(verdict.is == PathIs::kGood);
  CHECK(coordinator.loop->counters().refused_unadmitted == 0);
  coordinator.loop->Post([](Context& c) { c.Stop(0, ""); });
  CHECK(coordinator.Join() == "0");
}

}  // namespace skerry
