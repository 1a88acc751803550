// What is taken back before it left: never delivered, and nothing waits for it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <set>

#include "common/rng.h"
#include "wire/courier.h"
#include "wire/shaper.h"
#include "wire/transport/bulk_receiver.h"
#include "wire/transport/bulk_sender.h"

namespace skerry {
namespace {

const NodeId kAlice = TestNodeId(1);
const NodeId kBob = TestNodeId(2);

CourierOptions Options(uint64_t incarnation) {
  CourierOptions options;
  options.run.bytes[0] = 7;
  options.incarnation = incarnation;
  return options;
}

Instant At(double seconds) {
  return Instant() + Duration::Seconds(seconds);
}

SharedMessage DeltaOf(int64_t round) {
  Delta delta;
  delta.round = round;
  return Share(Message(delta));
}

// Two couriers that know each other, and a line from Alice to Bob of which frames can be taken.
struct Conversation {
  Courier alice{Options(11)}, bob{Options(22)};
  std::deque<Frame> line;
  std::vector<int64_t> heard;  // rounds of deltas
  Instant now = At(1);

  Conversation() {
    std::vector<Courier::Outgoing> out;
    bob.Send(now, kAlice, Share(Message(Pong{1})), out);
    ToAlice(out);
    for (const Frame& frame : line) ToBob(frame);
    line.clear();
  }
  void Launch(std::vector<Courier::Outgoing>& out) {
    for (auto& outgoing : out) line.push_back(std::move(outgoing.frame));
    out.clear();
  }
  void ToAlice(std::vector<Courier::Outgoing>& frames) {
    std::vector<Courier::Outgoing> answers;
    for (auto& frame : frames) alice.OnFrame(now, kBob, std::move(frame.frame), answers);
    alice.Tick(now + Duration::Millis(20), answers);
    Launch(answers);
  }
  void ToBob(const Frame& frame) {
    std::vector<Courier::Outgoing> answers;
    for (const auto& message : bob.OnFrame(now, kAlice, frame, answers).messages) {
      REQUIRE(message != nullptr);
      if (const auto* delta = std::get_if<Delta>(message.get())) heard.push_back(delta->round);
    }
    bob.Tick(now + Duration::Millis(20), answers);
    ToAlice(answers);
  }
  void Send(int64_t round) {
    std::vector<Courier::Outgoing> out;
    alice.Send(now, kBob, DeltaOf(round), out);
    Launch(out);
  }
  // What still lies on the line goes off it.
  int Withdraw(const std::function<bool(int64_t round)>& is_obsolete) {
    std::vector<Courier::Outgoing> out;
    int taken = 0;
    const auto take_back = [&](size_t lane, uint64_t sequence, const Message& message) {
      if (!is_obsolete(std::get<Delta>(message).round)) return false;
      const auto it = std::find_if(line.begin(), line.end(), [&](const Frame& frame) {
        return frame.message && frame.header.lane == lane && frame.header.sequence == sequence;
      });
      if (it == line.end()) return false;
      line.erase(it);
      ++taken;
      return true;
    };
    alice.Withdraw(kBob, TrafficClass::kDelta, take_back, out);
    Launch(out);
    return taken;
  }
};

TEST_CASE("Withdraw: what was taken back is not delivered, and what follows does not wait for it",
          "[wire][courier]") {
  Conversation run;
  for (const int64_t round : {1, 2, 3}) run.Send(round);
  REQUIRE(run.Withdraw([](int64_t round) { return round < 3; }) == 2);
  REQUIRE(run.line.size() == 3);  // the third delta, and the places of the others
  while (!run.line.empty()) {
    const Frame frame = run.line.front();
    run.line.pop_front();
    run.ToBob(frame);
  }
  CHECK(run.heard == std::vector<int64_t>{3});
  CHECK(run.alice.Unacknowledged(kBob) == 0);
}

TEST_CASE("Withdraw: an empty place that gets lost is repeated like a message", "[wire][courier]") {
  Conversation run;
  run.Send(1);
  REQUIRE(run.Withdraw([](int64_t) { return true; }) == 1);
  run.line.clear();
  run.Send(2);
  run.ToBob(run.line.front());
  CHECK(run.heard.empty());
  run.line.clear();
  run.now = At(20);
  std::vector<Courier::Outgoing> repeats;
  run.alice.Tick(run.now, repeats);
  run.Launch(repeats);
  for (const Frame& frame : std::exchange(run.line, {})) run.ToBob(frame);
  CHECK(run.heard == std::vector<int64_t>{2});
  CHECK(run.alice.Unacknowledged(kBob) == 0);
}

TEST_CASE("Withdraw: over a bad network all else arrives once and in order", "[wire][courier]") {
  Rng rng(GENERATE(1, 2, 3, 4, 5, 6), "withdrawals");
  Conversation run;
  std::vector<int64_t> expected;
  std::set<int64_t> gone;
  constexpr int64_t kRounds = 60;
  for (int64_t round = 0, turn = 0; turn < 4000; ++turn) {
    run.now = run.now + Duration::Millis(200);
    if (round < kRounds && rng.Uniform() < 0.3) {
      run.Send(round++);
      const auto is_it = [&](int64_t r) { return r == round - 1; };
      if (rng.Uniform() < 0.3 && run.Withdraw(is_it) > 0) gone.insert(round - 1);
    }
    if (!run.line.empty() && rng.Uniform() < 0.6) {
      const size_t at = rng.Below(run.line.size());
      const Frame frame = run.line[at];
      if (rng.Uniform() < 0.8) run.line.erase(run.line.begin() + static_cast<int64_t>(at));
      if (rng.Uniform() < 0.8) run.ToBob(frame);
    }
    std::vector<Courier::Outgoing> repeats;
    run.alice.Tick(run.now, repeats);
    run.Launch(repeats);
  }
  for (int64_t round = 0; round < kRounds; ++round) {
    if (!gone.contains(round)) expected.push_back(round);
  }
  CHECK(!gone.empty());
  CHECK(run.heard == expected);
}

OutgoingFrame FrameOf(uint64_t sequence, size_t bytes) {
  OutgoingFrame frame;
  frame.to = kBob;
  frame.traffic = TrafficClass::kDelta;
  frame.envelope = Bytes(48, 1);
  frame.payload = MakePayload(Bytes(bytes, static_cast<uint8_t>(sequence)));
  frame.in_chunks = true;
  frame.sequence = sequence;
  return frame;
}

TEST_CASE("Withdraw: of bulk only what has not begun to leave", "[wire][bulk]") {
  BulkSender sender(77);
  BulkReceiver receiver;
  sender.OpenStripe(At(0), 0);
  for (const uint64_t sequence : {1, 2, 3}) {
    sender.Enqueue(At(0), FrameOf(sequence, 4'000'000));
  }
  const auto first = sender.Next(At(0));
  REQUIRE(first.has_value());
  CHECK_FALSE(sender.Withdraw(TrafficClass::kDelta, 1));
  CHECK_FALSE(sender.Withdraw(TrafficClass::kState, 2));
  CHECK(sender.Withdraw(TrafficClass::kDelta, 2));
  CHECK_FALSE(sender.Withdraw(TrafficClass::kDelta, 2));
  CHECK(sender.Unfinished(TrafficClass::kDelta) == 2);

  std::vector<uint8_t> arrived;
  std::optional<BulkSender::Transmission> next = first;
  for (double now = 0.05; !sender.IsIdle() && now < 200; now += 0.05) {
    for (; next; next = sender.Next(At(now))) {
      const auto chunk = DecodeLink(next->bytes);
      std::optional<BulkReceiver::Arrived> frame;
      receiver.Take(std::get<DecodedChunk>(*chunk), next->stripe, frame);
      if (frame) arrived.push_back(View(frame->payload).front());
    }
    while (const auto acks = receiver.TakeAcks(At(now))) sender.OnAcks(At(now), acks->message);
    next = sender.Next(At(now));
  }
  CHECK(arrived == std::vector<uint8_t>{1, 3});
}

TEST_CASE("Withdraw: of a shaped line what waits for its turn", "[wire][shaper]") {
  Shaper shaper(1e6);
  shaper.SetLink(kBob, {});
  for (const uint64_t sequence : {1, 2, 3}) shaper.Enqueue(At(0), FrameOf(sequence, 1'000'000));
  std::vector<OutgoingFrame> arrived;
  shaper.Advance(At(0.5), arrived);  // the first has the line
  CHECK_FALSE(shaper.Withdraw(kBob, TrafficClass::kDelta, 1));
  CHECK(shaper.Withdraw(kBob, TrafficClass::kDelta, 2));
  shaper.Advance(At(10), arrived);
  REQUIRE(arrived.size() == 2);
  CHECK(arrived[1].sequence == 3);
  CHECK(shaper.Waiting() == 0);
}

}  // namespace
}  // namespace skerry
