// Chunks from a BulkSender to a BulkReceiver, over connections that lose, stall and break.
#include <catch2/catch.hpp>

#include "common/rng.h"
#include "tests/wire/bulk_pair.h"

namespace skerry {
namespace {

TEST_CASE("Bulk: a frame arrives whole, in however many chunks", "[wire][bulk]") {
  const size_t bytes = GENERATE(1u, 5'000u, 8'192u, 1'000'000u);
  BulkPair pair;
  const OutgoingFrame frame = FrameOf(TrafficClass::kDelta, bytes);
  pair.sender.Enqueue(At(0), frame);
  pair.Finish();
  REQUIRE(pair.arrived.size() == 1);
  CHECK(Same(pair.arrived[0], frame));
  CHECK(pair.sender.under_way_bytes() == 0);
  CHECK(pair.receiver.unfinished_bytes() == 0);
}

TEST_CASE("Bulk: not more is under way than the window allows", "[wire][bulk]") {
  BulkPair pair;
  pair.sender.Enqueue(At(0), FrameOf(TrafficClass::kDelta, 4'000'000));
  pair.SendAll();
  const CongestionWindow& window = pair.sender.window();
  CHECK(pair.sender.under_way_bytes() >= window.bytes());
  CHECK(pair.sender.under_way_bytes() <= window.bytes() + 2 * window.ChunkBytes());
}

TEST_CASE("Bulk: an activation goes before the rest of a delta, even with the window full",
          "[wire][bulk]") {
  BulkPair pair;
  pair.sender.Enqueue(At(0), FrameOf(TrafficClass::kDelta, 4'000'000));
  pair.SendAll();
  pair.sender.Enqueue(At(0), FrameOf(TrafficClass::kActivation, 4'000));
  const auto next = pair.sender.Next(At(0));
  REQUIRE(next.has_value());
  CHECK(ChunkIn(next->bytes).header.traffic == TrafficClass::kActivation);
  CHECK_FALSE(pair.sender.Next(At(0)));
}

TEST_CASE("Bulk: classes leave strictly in order of urgency", "[wire][bulk]") {
  BulkPair pair;
  for (const auto traffic : {TrafficClass::kData, TrafficClass::kState, TrafficClass::kDelta})
    pair.sender.Enqueue(At(0), FrameOf(traffic, 20'000));
  std::vector<TrafficClass> order;
  for (int i = 0; i < 100 && !pair.sender.IsIdle(); ++i) {
    pair.SendAll();
    while (!pair.flying.empty()) {
      order.push_back(ChunkIn(pair.flying.front().bytes).header.traffic);
      pair.Land(pair.flying.front());
      pair.flying.pop_front();
    }
    pair.Acknowledge();
  }
  CHECK(std::is_sorted(order.begin(), order.end()));
  CHECK(pair.arrived.size() == 3);
}

TEST_CASE("Bulk: with activations about, the first connection is theirs", "[wire][bulk]") {
  BulkPair pair(3);
  pair.sender.Enqueue(At(0), FrameOf(TrafficClass::kActivation, 1'000));
  pair.sender.Enqueue(At(0), FrameOf(TrafficClass::kDelta, 400'000));
  pair.SendAll();
  for (const auto& sent : pair.flying) {
    if (ChunkIn(sent.bytes).header.traffic == TrafficClass::kDelta) CHECK(sent.stripe != 0);
  }
}

TEST_CASE("Bulk: chunks of a broken connection go over another, and none is delivered twice",
          "[wire][bulk][fault]") {
  Rng rng(GENERATE(1, 2, 3, 4, 5), "breaks");
  BulkPair pair(4);
  std::vector<OutgoingFrame> frames;
  for (uint8_t i = 0; i < 5; ++i) {
    frames.push_back(FrameOf(TrafficClass::kDelta, 200'000u + i, static_cast<uint8_t>(i + 1)));
    pair.sender.Enqueue(At(0), frames.back());
  }
  for (int turn = 0; turn < 4000 && !pair.sender.IsIdle(); ++turn) {
    pair.now += 0.05;
    pair.SendAll();
    if (rng.Uniform() < 0.2) {
      const auto broken = static_cast<StripeId>(rng.Next() % 4);
      // What was on it is lost, or had just arrived.
      std::erase_if(pair.flying,
                    [&](const auto& sent) { return sent.stripe == broken && rng.Uniform() < 0.7; });
      pair.sender.CloseStripe(broken);
      pair.sender.OpenStripe(At(pair.now), broken);
    }
    for (size_t i = pair.flying.size() / 2; i > 0; --i) {
      const size_t at = rng.Next() % pair.flying.size();
      CHECK(pair.Land(pair.flying[at]) != BulkReceiver::Verdict::kRefused);
      pair.flying.erase(pair.flying.begin() + static_cast<int64_t>(at));
    }
    if (rng.Uniform() < 0.8) pair.Acknowledge();
    for (const StripeId silent : pair.sender.Tick(At(pair.now))) {
      pair.sender.CloseStripe(silent);
      pair.sender.OpenStripe(At(pair.now), silent);
    }
  }
  REQUIRE(pair.sender.IsIdle());
  CHECK(pair.arrived.size() == frames.size());
  for (const auto& frame : frames) {
    CHECK(std::count_if(pair.arrived.begin(), pair.arrived.end(),
                        [&](const auto& arrived) { return Same(arrived, frame); }) == 1);
  }
  CHECK(pair.sender.under_way_bytes() == 0);
}

TEST_CASE("Bulk: where only small messages pass, that is told of the stall",
          "[wire][bulk][fault]") {
  BulkPair pair(1);
  pair.sender.Enqueue(At(0), FrameOf(TrafficClass::kDelta, 50'000));
  pair.SendAll();
  pair.MeasureRoundTrip(8, 0.05);
  CHECK(pair.sender.StalledSince(At(8.5)) == At(0));
  CHECK(pair.sender.AnswersProbes(At(8.5)));
  CHECK_FALSE(pair.sender.AnswersProbes(At(11)));
}

TEST_CASE("Bulk: a connection that says nothing loses its chunks, and the stall is told",
          "[wire][bulk][fault]") {
  BulkPair pair(1);
  pair.sender.Enqueue(At(0), FrameOf(TrafficClass::kDelta, 50'000));
  pair.SendAll();
  CHECK(pair.sender.Tick(At(1)).empty());
  CHECK(pair.sender.Tick(At(2.5)) == std::vector<StripeId>{0});
  CHECK_FALSE(pair.sender.StalledSince(At(7)));
  CHECK(pair.sender.StalledSince(At(8.5)) == At(0));
  CHECK_FALSE(pair.sender.AnswersProbes(At(8.5)));
  pair.sender.CloseStripe(0);
  pair.sender.OpenStripe(At(9), 1);
  pair.flying.clear();
  pair.now = 9;
  pair.Finish();
  CHECK(pair.arrived.size() == 1);
}

TEST_CASE("Bulk: a receiver that begins to count anew does not use up the sender's credit",
          "[wire][bulk]") {
  constexpr auto kFrame = static_cast<size_t>(BulkReceiver::kCreditBytes / 4);
  constexpr size_t kFrames = 5;  // together beyond the credit
  BulkPair pair;
  for (int life = 1; life <= 2; ++life) {
    pair.arrived.clear();
    pair.receiver = BulkReceiver();
    for (size_t i = 0; i < kFrames; ++i)
      pair.sender.Enqueue(At(pair.now), FrameOf(TrafficClass::kDelta, kFrame));
    pair.Finish();
    CHECK(pair.sender.IsIdle());
    CHECK(pair.arrived.size() == kFrames);
  }
}

TEST_CASE("Bulk: acknowledgements of nothing and of another session change nothing",
          "[wire][bulk][hostile]") {
  BulkPair pair;
  pair.sender.Enqueue(At(0), FrameOf(TrafficClass::kDelta, 100'000));
  pair.SendAll();
  const int64_t before = pair.sender.under_way_bytes();
  pair.sender.OnAcks(At(0.1), {77, int64_t{1} << 40, 0, 0, {9999, 0}});
  pair.sender.OnAcks(At(0.1), {78, 0, 0, 0, {1, 2, 3}});
  pair.sender.OnEcho(At(0.1), {INT64_MAX / 2, true});
  CHECK(pair.sender.under_way_bytes() == before);
  CHECK_FALSE(pair.sender.window().round_trip());
}

TEST_CASE("Bulk: an echo counts once, and only of a probe that was sent", "[wire][bulk][hostile]") {
  BulkPair pair;
  pair.sender.Enqueue(At(0), FrameOf(TrafficClass::kDelta, 100'000));
  pair.sender.OpenStripe(At(0), kSignalStripe);
  const auto probe = pair.sender.ProbeDue(At(0));
  REQUIRE(probe);
  CHECK(pair.sender.OnEcho(At(0.08), EchoOf(*probe, 5)));
  CHECK_FALSE(pair.sender.OnEcho(At(0.09), EchoOf(*probe, 5)));
  ProbeMessage near = EchoOf(*probe, 5);
  near.sent_nanos = 99'999'000;
  CHECK_FALSE(pair.sender.OnEcho(At(0.1), near));
  CHECK(pair.sender.window().round_trip() == Duration::Millis(80));
  CHECK_FALSE(pair.sender.InSenderLine(At(0.1)).is_near);
}

// ---- hostile chunks ----------------------------------------------------------------------------

struct Hostile {
  BulkReceiver receiver;
  ChunkHeader header;
  Bytes bytes = Bytes(100, 5);

  Hostile() {
    header.session = 1;
    header.serial = 1;
    header.transfer = 1;
    header.traffic = TrafficClass::kDelta;
    header.envelope_bytes = 50;
    header.total_bytes = 1000;
  }
  BulkReceiver::Verdict Take() {
    std::optional<BulkReceiver::Arrived> arrived;
    return receiver.Take({header, bytes}, 0, arrived);
  }
};

TEST_CASE("BulkReceiver: lengths and offsets that cannot be are refused before anything is held",
          "[wire][bulk][hostile]") {
  using Verdict = BulkReceiver::Verdict;
  Hostile hostile;
  SECTION("beyond the end") {
    hostile.header.offset = 950;
  }
  SECTION("an end without digest") {
    hostile.header.offset = 900;
  }
  SECTION("a digest before the end") {
    hostile.header.digest.emplace();
  }
  SECTION("no envelope") {
    hostile.header.envelope_bytes = 0;
  }
  SECTION("an envelope beyond its limit") {
    hostile.header.envelope_bytes = static_cast<int64_t>(limits::kEnvelopeBytesMax) + 1;
    hostile.header.total_bytes = hostile.header.envelope_bytes;
  }
  SECTION("an envelope beyond the stream") {
    hostile.header.envelope_bytes = 1001;
  }
  SECTION("a payload beyond its limit") {
    hostile.header.total_bytes = static_cast<int64_t>(limits::kPayloadBytesMax) + 51;
  }
  SECTION("an empty chunk") {
    hostile.bytes.clear();
  }
  SECTION("a chunk beyond its limit") {
    hostile.bytes.resize(kChunkBytesMax + 1);
    hostile.header.total_bytes = 10 * kChunkBytesMax;
  }
  SECTION("far ahead of what has come") {
    hostile.header.total_bytes = 3 * BulkReceiver::kAheadMax;
    hostile.header.offset = 2 * BulkReceiver::kAheadMax;
  }
  SECTION("no session") {
    hostile.header.session = 0;
  }
  CHECK(hostile.Take() == Verdict::kRefused);
  CHECK(hostile.receiver.unfinished_bytes() == 0);
}

TEST_CASE("BulkReceiver: chunks that contradict or overlap earlier ones are refused",
          "[wire][bulk][hostile]") {
  using Verdict = BulkReceiver::Verdict;
  Hostile hostile;
  hostile.header.offset = 300;
  REQUIRE(hostile.Take() == Verdict::kTaken);
  const int64_t held = hostile.receiver.unfinished_bytes();
  SECTION("another size") {
    hostile.header.total_bytes = 1200;
  }
  SECTION("another envelope") {
    hostile.header.envelope_bytes = 60;
  }
  SECTION("overlap from before") {
    hostile.header.offset = 250;
  }
  SECTION("overlap from behind") {
    hostile.header.offset = 350;
  }
  CHECK(hostile.Take() == Verdict::kRefused);
  CHECK(hostile.receiver.unfinished_bytes() == held);
}

TEST_CASE("BulkReceiver: more unfinished frames than there may be are refused",
          "[wire][bulk][hostile]") {
  Hostile hostile;
  size_t taken = 0;
  for (; taken < 3 * BulkReceiver::kUnfinishedMax; ++taken) {
    hostile.header.transfer = taken + 1;
    if (hostile.Take() != BulkReceiver::Verdict::kTaken) break;
  }
  CHECK(taken == BulkReceiver::kUnfinishedMax);
}

TEST_CASE("BulkReceiver: what goes beyond the credit is refused", "[wire][bulk][hostile]") {
  Hostile hostile;
  hostile.bytes.resize(kChunkBytesMax);
  hostile.header.total_bytes = int64_t{200} << 20;
  int64_t taken = 0;
  while (hostile.Take() == BulkReceiver::Verdict::kTaken) {
    taken += kChunkBytesMax;
    hostile.header.offset += kChunkBytesMax;
  }
  CHECK(taken == BulkReceiver::kCreditBytes);
  // Whoever has been granted more may send more.
  REQUIRE(hostile.receiver.TakeAcks(At(0)));
  CHECK(hostile.Take() == BulkReceiver::Verdict::kTaken);
}

TEST_CASE("BulkReceiver: a frame whose digest differs is not delivered", "[wire][bulk][hostile]") {
  Hostile hostile;
  hostile.header.total_bytes = 100;
  hostile.header.digest.emplace().bytes.fill(1);
  std::optional<BulkReceiver::Arrived> arrived;
  hostile.receiver.Take({hostile.header, hostile.bytes}, 0, arrived);
  CHECK_FALSE(arrived);
  CHECK(hostile.receiver.corrupt() == 1);
  CHECK(hostile.receiver.unfinished_bytes() == 0);
}

TEST_CASE("BulkReceiver: of one process the newest session counts, also if it comes first",
          "[wire][bulk]") {
  constexpr uint64_t kProcess = uint64_t{7} << kSessionNumberBits;
  Hostile sender;
  const auto take = [&](uint64_t session, uint64_t transfer) {
    sender.header.session = session;
    sender.header.transfer = transfer;
    return sender.Take();
  };
  CHECK(take(kProcess | 2, 1) == BulkReceiver::Verdict::kTaken);
  CHECK(take(kProcess | 1, 1) == BulkReceiver::Verdict::kRefused);
  CHECK(take(kProcess | 2, 2) == BulkReceiver::Verdict::kTaken);
  CHECK(take((uint64_t{3} << kSessionNumberBits) | 1, 1) == BulkReceiver::Verdict::kTaken);
}

TEST_CASE("BulkReceiver: a new session begins anew, and the old one is over", "[wire][bulk]") {
  Hostile hostile;
  REQUIRE(hostile.Take() == BulkReceiver::Verdict::kTaken);
  hostile.header.session = 2;
  CHECK(hostile.Take() == BulkReceiver::Verdict::kTaken);
  hostile.header.session = 1;
  hostile.header.offset = 100;
  CHECK(hostile.Take() == BulkReceiver::Verdict::kRefused);
  CHECK(hostile.receiver.unfinished_bytes() == 100);
}

}  // namespace
}  // namespace skerry
