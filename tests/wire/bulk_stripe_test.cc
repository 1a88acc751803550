// What the kernel says of bulk connections, and what the sender makes of it.
#include "wire/transport/bulk_stripe.h"

#include <catch2/catch.hpp>
#include <set>

#include "tests/wire/bulk_pair.h"

namespace skerry {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 20;

TEST_CASE("Stripe: it gets at once what its connection can send, and no more while that waits",
          "[wire][bulk]") {
  BulkStripe stripe(At(0));
  CHECK(stripe.TakesBytes(kPlenty) == kPlenty);  // nothing is known of it
  stripe.OnReading(At(0), ConnectionReading{0, 0, 60'000});
  CHECK(stripe.TakesBytes(kPlenty) == 60'000);
  CHECK(stripe.TakesBytes(20'000) == 20'000);
  CHECK(stripe.TakesMore(kPlenty));
  stripe.OnPut(At(1), 60'000);
  CHECK_FALSE(stripe.TakesMore(kPlenty));
  stripe.OnReading(At(1.01), ConnectionReading{60'000, 0, 60'000});
  CHECK(stripe.TakesMore(kPlenty));
  stripe.OnReading(At(1.02), ConnectionReading{20'000, 40'000, 60'000});
  CHECK_FALSE(stripe.TakesMore(kPlenty));
  stripe.OnReading(At(1.03), ConnectionReading{0, 0, 1});
  CHECK(stripe.TakesBytes(kPlenty) == CongestionWindow::kChunkLeast);
}

TEST_CASE("Stripe: a reading right after something was put on it may not know of that",
          "[wire][bulk]") {
  BulkStripe stripe(At(0));
  stripe.OnPut(At(0), 50'000);
  stripe.OnReading(At(0.001), ConnectionReading{0, 0, kPlenty});
  CHECK(stripe.InLine() == 50'000);
  stripe.OnReading(At(0.01), ConnectionReading{10'000, 5'000, kPlenty});
  CHECK(stripe.InLine() == 15'000);
  stripe.OnPut(At(0.011), 3'000);
  CHECK(stripe.InLine() == 18'000);
}

TEST_CASE("Stripe: what its connection may not send yet is not in the line", "[wire][bulk]") {
  BulkStripe stripe(At(0));
  stripe.OnPut(At(0), 40'000);
  stripe.OnReading(At(0.01), ConnectionReading{20'000, 20'000, 60'000});
  CHECK(stripe.InLine() == 40'000);
  // BBR lets four packets be under way while it looks for the round trip.
  stripe.OnReading(At(0.02), ConnectionReading{5'792, 30'000, 5'792});
  CHECK(stripe.InLine() == 5'792);
  CHECK_FALSE(stripe.TakesMore(kPlenty));
  stripe.OnReading(At(0.03), ConnectionReading{5'792, 0, 5'792});
  CHECK_FALSE(stripe.TakesMore(kPlenty));
  stripe.OnReading(At(0.04), ConnectionReading{1'448, 0, 5'792});
  CHECK(stripe.TakesMore(kPlenty));
}

TEST_CASE("Stripe: a cold one is known before it is filled", "[wire][bulk]") {
  BulkStripe stripe(At(0));
  stripe.OnPut(At(0), 60'000);
  CHECK(stripe.TakesMore(kPlenty));  // nothing is known of it
  stripe.OnReading(At(0.001), ConnectionReading{0, 0, 14'480});
  CHECK_FALSE(stripe.TakesMore(kPlenty));
  CHECK(stripe.InLine() == 14'480);
}

TEST_CASE("Bulk: for what is not in the line any more as much goes again", "[wire][bulk]") {
  BulkPair pair;
  pair.sender.Enqueue(At(0), FrameOf(TrafficClass::kDelta, 4'000'000));
  pair.SendAll();
  const int64_t full = pair.sender.under_way_bytes(), chunk = pair.sender.window().ChunkBytes();
  REQUIRE(full == 4 * chunk);
  pair.now = 0.01;
  pair.sender.OnReading(At(0.01), 0, ConnectionReading{chunk, 0, kPlenty});
  pair.SendAll();
  CHECK(pair.sender.under_way_bytes() == full + chunk);
  // More than was put on it, and of a connection that there is not, means nothing.
  pair.now = 0.02;
  pair.sender.OnReading(At(0.02), 0, ConnectionReading{int64_t{1} << 40, 0, kPlenty});
  pair.sender.OnReading(At(0.02), 9, ConnectionReading{});
  pair.SendAll();
  CHECK(pair.sender.under_way_bytes() == full + chunk);
}

TEST_CASE("Bulk: with every connection busy it says when to look again", "[wire][bulk]") {
  BulkPair pair;
  pair.sender.Enqueue(At(0), FrameOf(TrafficClass::kDelta, 4'000'000));
  pair.SendAll();
  const int64_t under_way = pair.sender.under_way_bytes();
  pair.now = 0.01;
  for (const StripeId stripe : {StripeId{0}, StripeId{1}})
    pair.sender.OnReading(At(0.01), stripe, ConnectionReading{0, 9'000, 20'000});
  CHECK_FALSE(pair.sender.Next(At(0.01)));
  CHECK(pair.sender.under_way_bytes() == under_way);
  REQUIRE(pair.sender.NextDue());
  CHECK(*pair.sender.NextDue() <= At(0.01) + BulkStripe::kReachesKernel);
}

// Two chunks, one over each connection; only that over the second arrives.
struct HalfArrived : BulkPair {
  HalfArrived() {
    sender.Enqueue(At(0), FrameOf(TrafficClass::kDelta, 16'000));
    SendAll();
    REQUIRE(flying.size() == 2);
    late = flying.front();
    REQUIRE(late.stripe == 0);
    Land(flying.back());
    flying.clear();
    Acknowledge();
    REQUIRE_FALSE(sender.Next(At(0)));
    now = 0.5;
  }
  BulkSender::Transmission late;
};

TEST_CASE("Bulk: the last chunk that is late goes over another connection, too", "[wire][bulk]") {
  HalfArrived pair;
  const auto again = pair.sender.Next(At(0.5));
  REQUIRE(again);
  CHECK(again->stripe == 1);
  CHECK(ChunkIn(again->bytes).header.offset == ChunkIn(pair.late.bytes).header.offset);
  CHECK_FALSE(pair.sender.Next(At(0.5)));  // once
  pair.Land(*again);
  pair.Land(pair.late);
  pair.Acknowledge();
  CHECK(pair.arrived.size() == 1);
  CHECK(pair.sender.IsIdle());
  CHECK(pair.sender.under_way_bytes() == 0);
}

TEST_CASE("Bulk: of a frame that has arrived no chunk goes again, though its copy is under way",
          "[wire][bulk]") {
  HalfArrived pair;
  REQUIRE(pair.sender.Next(At(0.5)));
  pair.sender.Enqueue(At(0.5), FrameOf(TrafficClass::kDelta, 5'000));
  pair.SendAll();
  REQUIRE(pair.flying.size() == 1);
  pair.Land(pair.late);
  pair.Acknowledge();
  CHECK(pair.arrived.size() == 1);
  // Everything is late by now, the copy most of all.
  const auto again = pair.sender.Next(At(3));
  REQUIRE(again);
  CHECK(ChunkIn(again->bytes).header.transfer == ChunkIn(pair.flying[0].bytes).header.transfer);
}

// More than a window over two connections; what goes over the first stays away.
struct Overtaken : BulkPair {
  Overtaken() {
    sender.Enqueue(At(0), FrameOf(TrafficClass::kDelta, 4'000'000));
    MeasureRoundTrip(0, 0.05);
    now = 0.05;
    SendAll();
  }
  // Sends and lands what goes over the second one, until that time.
  void LandSecondUntil(double end) {
    for (; now < end; now += 0.05) {
      SendAll();
      for (const auto& sent : flying) {
        if (sent.stripe == 1) Land(sent);
        if (sent.stripe == 1) offsets.insert(ChunkIn(sent.bytes).header.offset);
        if (sent.stripe == 0) stuck.insert(ChunkIn(sent.bytes).header.offset);
      }
      flying.clear();
      Acknowledge();
    }
  }
  std::set<int64_t> offsets, stuck;
};

TEST_CASE("Bulk: a chunk that others have overtaken by round trips goes over another connection",
          "[wire][bulk]") {
  Overtaken pair;
  pair.LandSecondUntil(0.15);
  REQUIRE_FALSE(pair.stuck.empty());
  const int64_t first = *pair.stuck.begin();
  CHECK_FALSE(pair.offsets.contains(first));
  pair.LandSecondUntil(0.5);
  CHECK(pair.sender.Unfinished(TrafficClass::kDelta) == 1);  // there is more to send
  CHECK(pair.offsets.contains(first));
}

TEST_CASE("Bulk: where nothing comes nothing has been overtaken", "[wire][bulk]") {
  Overtaken pair;
  for (; pair.now < 0.2; pair.now += 0.01) pair.SendAll();  // a window, spaced
  const int64_t under_way = pair.sender.under_way_bytes();
  const size_t sent = pair.flying.size();
  REQUIRE(sent > 2);
  for (; pair.now < 5; pair.now += 0.05) pair.SendAll();
  CHECK(pair.flying.size() == sent);
  CHECK(pair.sender.under_way_bytes() == under_way);
}

TEST_CASE("Bulk: chunks are short for who understands them", "[wire][bulk]") {
  BulkPair pair;
  pair.sender.Enqueue(At(0), FrameOf(TrafficClass::kDelta, 4'000'000));
  const auto is_short = [&] {
    const auto next = pair.sender.Next(At(pair.now));
    REQUIRE(next);
    const ChunkHeader header = ChunkIn(next->bytes).header;
    const Bytes begin(next->bytes.begin(), next->bytes.begin() + 14);
    const Bytes as_short = EncodeShort(header);
    return begin == Bytes(as_short.begin(), as_short.begin() + 14);
  };
  CHECK_FALSE(is_short());  // nobody has been asked
  const auto probe = pair.sender.ProbeDue(At(6));
  REQUIRE(probe);
  CHECK(probe->asks_short);
  ProbeMessage unanswered = EchoOf(*probe, 5);
  unanswered.asks_short = true;
  pair.sender.OnEcho(At(6.05), unanswered);
  pair.now = 6.05;
  CHECK_FALSE(is_short());
  const auto second = pair.sender.ProbeDue(At(6.15));
  REQUIRE(second);
  pair.sender.OnEcho(At(6.2), EchoOf(*second, 5));
  pair.now = 6.4;
  CHECK(is_short());
}

TEST_CASE("Bulk: probes wait for a connection of their own, though not for ever", "[wire][bulk]") {
  BulkPair pair;
  pair.sender.Enqueue(At(1), FrameOf(TrafficClass::kDelta, 4'000'000));
  SECTION("it opens") {
    CHECK_FALSE(pair.sender.ProbeDue(At(1)));
    pair.sender.OpenStripe(At(1.5), kSignalStripe);
    CHECK(pair.sender.ProbeDue(At(1.5)));
  }
  SECTION("it does not") {
    CHECK_FALSE(pair.sender.ProbeDue(At(1)));
    CHECK_FALSE(pair.sender.ProbeDue(At(5.9)));
    CHECK(pair.sender.ProbeDue(At(6.1)));
  }
}

TEST_CASE("Bulk: as many connections as the line has shown that it needs", "[wire][bulk]") {
  BulkPair pair;
  pair.sender.Enqueue(At(0), FrameOf(TrafficClass::kDelta, 8'000'000));
  CHECK(pair.sender.WantedStripes(At(0)) == 4);
  pair.MeasureRoundTrip(0, 0.05);
  CHECK(pair.sender.WantedStripes(At(0.05)) == 5);
  // 100 MB/s by the receiver's clock, though the window stays small.
  int64_t received = 0;
  for (int i = 1; i <= 400; ++i) {
    pair.now = 0.05 + 0.01 * i;
    pair.SendAll();
    for (; !pair.flying.empty(); pair.flying.pop_front()) pair.Land(pair.flying.front());
    while (auto acks = pair.receiver.TakeAcks(At(pair.now))) {
      received = acks->message.received_bytes;
      acks->message.at_nanos = received * 10;
      pair.sender.OnAcks(At(pair.now), acks->message);
    }
  }
  REQUIRE(received > 3'000'000);
  REQUIRE(pair.sender.window().bytes() < 100'000);
  CHECK(pair.sender.WantedStripes(At(4.1)) == 8);
}

}  // namespace
}  // namespace skerry
