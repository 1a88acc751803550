// Real processes over a way on which things go wrong in the middle of a transfer: everything
// arrives once, unchanged and in order, or its sender is told that it does not get on.
#include <catch2/catch.hpp>
#include <functional>
#include <mutex>
#include <set>

#include "scripted_actor.h"
#include "wild_path.h"

namespace skerry {
namespace {

constexpr int kMessages = 12;
constexpr int kBeats = 20;
constexpr int kSwallowed = 40;

// Gradients of 1 MiB and some from one process to another, over a wild path.
struct Transfer {
  Transfer() {
    bob.Open(bob.Options());
    path = std::make_unique<WildPath>(bob.loop->endpoint());
    EventLoopOptions options = ann.Options();
    options.event_sink = [this](const std::string& kind, const std::string&) {
      const std::lock_guard lock(mutex);
      events.insert(kind);
      if (on_event) on_event(kind);
    };
    ann.Open(std::move(options));
    Bytes bytes((1 << 20) + 123);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 31 + i / 977);
    payload = MakePayload(std::move(bytes));
    ann.actor.on_start = [this](Context& c) {
      c.ConnectPeer(bob.id(), path->endpoint());
      c.Send(bob.id(), Pong{1});
    };
    bob.actor.on_start = [this](Context& c) { c.ConnectPeer(ann.id(), ""); };
    bob.actor.on_message = [this](Context& c, const NodeId&, const Message& message) {
      if (std::holds_alternative<Pong>(message)) c.Send(ann.id(), Pong{2});
      if (std::holds_alternative<Heartbeat>(message)) {
        ++beats;
        beat_after = got.size();
      }
      if (const auto* gradient = std::get_if<Gradient>(&message)) {
        intact = intact && *gradient->values == *payload;
        got.push_back(gradient->step);
        if (on_progress) on_progress(got.size());
      }
      if (got.size() < kMessages || beats < beats_wanted) return;
      ann.loop->Post([](Context& a) { a.Stop(0, ""); });
      c.Stop(0, "");
    };
    ann.actor.on_message = [this](Context& c, const NodeId&, const Message& message) {
      // It has heard that the other understands chunks.
      if (std::holds_alternative<Pong>(message)) {
        for (int i = 0; i < kMessages; ++i) c.Send(bob.id(), Gradient{i, 0, 0, 0, 0, payload});
      }
    };
  }

  // When so many gradients have come, ann sends kBeats heartbeats, then bob answers with as many,
  // then ann sends one more, and not before that has come does the transfer end.
  void BeatAfter(size_t gradients) {
    beats_wanted = kBeats + 1;
    on_progress = [this, gradients](size_t now) {
      if (now != gradients) return;
      if (on_beating) on_beating();
      ann.loop->Post([this](Context& c) { SendBeats(c, bob.id(), kBeats); });
    };
    bob.actor.on_message = [this, take = bob.actor.on_message](Context& c, const NodeId& from,
                                                               const Message& message) {
      take(c, from, message);
      if (!std::holds_alternative<Heartbeat>(message) || beats != kBeats) return;
      if (on_beaten) on_beaten();
      SendBeats(c, from, kBeats);
    };
    ann.actor.on_message = [this, take = ann.actor.on_message](Context& c, const NodeId& from,
                                                               const Message& message) {
      take(c, from, message);
      if (!std::holds_alternative<Heartbeat>(message) || ++answers != kBeats) return;
      if (on_answered) on_answered();
      SendBeats(c, from, 1);
    };
  }

  static void SendBeats(Context& c, const NodeId& to, int count) {
    for (int i = 0; i < count; ++i) c.Send(to, Heartbeat{.waiting_for = ""});
  }

  void Run() {
    bob.Start();
    ann.Start();
    CHECK(ann.Join() == "0");
    CHECK(bob.Join() == "0");
    std::vector<int64_t> all(kMessages);
    for (int i = 0; i < kMessages; ++i) all[static_cast<size_t>(i)] = i;
    CHECK(got == all);
    CHECK(intact);
    CHECK(bob.loop->counters().refused_malformed == 0);
  }

  Process ann{1}, bob{2};
  std::unique_ptr<WildPath> path;
  Payload payload;
  std::vector<int64_t> got;
  bool intact = true;
  int beats = 0, beats_wanted = 0;  // it ends only when so many heartbeats have come, too
  int answers = 0;
  std::function<void()> on_beating, on_beaten, on_answered;
  size_t beat_after = 0;  // messages that came before the last of them
  std::function<void(size_t)> on_progress;
  std::function<void(const std::string&)> on_event;
  std::mutex mutex;
  std::set<std::string> events;
};

TEST_CASE("Faults: connections broken at random lose and double nothing", "[faults][loop]") {
  Transfer transfer;
  transfer.path->BreakEvery(5 << 19, 11);
  transfer.Run();
  CHECK(transfer.path->broken() >= 4);
}

TEST_CASE("Faults: a peer that stops in the middle is told of, and the rest comes once it goes on",
          "[faults][loop]") {
  Transfer transfer;
  transfer.on_progress = [&](size_t got) {
    if (got == 4) transfer.path->Hold(true, true);
  };
  transfer.on_event = [&](const std::string& kind) {
    if (kind == "stalled") transfer.path->Hold(false, false);
  };
  transfer.Run();
  CHECK(transfer.events.contains("stalled"));
}

TEST_CASE("Faults: where only one direction is lost, that is told of too", "[faults][loop]") {
  Transfer transfer;
  transfer.on_progress = [&](size_t got) {
    if (got == 4) transfer.path->Hold(false, true);  // no acknowledgement comes back
  };
  transfer.on_event = [&](const std::string& kind) {
    if (kind == "stalled") transfer.path->Hold(false, false);
  };
  transfer.Run();
  CHECK(transfer.events.contains("stalled"));
}

TEST_CASE("Faults: beside bulk control comes over two connections, and counts once",
          "[faults][loop]") {
  Transfer transfer;
  transfer.BeatAfter(8);
  transfer.Run();
  CHECK(transfer.beats == kBeats + 1);
  CHECK(transfer.bob.loop->counters().frames_received >= 2 * kBeats + kMessages);
}

TEST_CASE("Faults: control that comes by its second connection first does not move the answers",
          "[faults][loop]") {
  Transfer transfer;
  WildPath& path = *transfer.path;
  int64_t before = 0, after = 0;
  transfer.BeatAfter(4);
  transfer.on_beating = [&] { path.HoldOldest(true); };
  transfer.on_beaten = [&] { before = path.carried_back_by_oldest(); };
  transfer.on_answered = [&] {
    after = path.carried_back_by_oldest();
    path.HoldOldest(false);
  };
  transfer.Run();
  CHECK(transfer.answers == kBeats);
  CHECK(after - before > kBeats * 64);
}

TEST_CASE("Faults: on a line that drops to a hundredth bulk goes on, and control passes it",
          "[faults][loop]") {
  Transfer transfer;
  constexpr double kFull = 100e6;
  transfer.path->SetRate(kFull);
  transfer.on_progress = [&](size_t got) {
    if (got != 6) return;
    transfer.path->SetRate(kFull / 100);
    transfer.ann.loop->Post(
        [&](Context& c) { c.Send(transfer.bob.id(), Heartbeat{.waiting_for = ""}); });
  };
  transfer.Run();
  CHECK(transfer.beat_after >= 6);
  CHECK(transfer.beat_after < kMessages);
}

// Whoever dials in vain and is dialled in turn used to send all its bulk beside its heartbeats.
TEST_CASE("Faults: bulk has connections of its own where only the peer's dialling succeeds",
          "[faults][loop]") {
  constexpr int kCount = 40;
  Process ann(1), bob(2);
  ann.Open(ann.Options());
  bob.Open(bob.Options());
  WildPath path(ann.loop->endpoint());
  const Payload payload = MakePayload(Bytes(200'000, 7));
  int got = 0;
  ann.actor.on_start = [&](Context& c) { c.ConnectPeer(bob.id(), "tcp://127.0.0.1:1"); };
  ann.actor.on_message = [&](Context& c, const NodeId&, const Message&) {
    for (int i = 0; i < kCount; ++i) c.Send(bob.id(), Gradient{i, 0, 0, 0, 0, payload});
  };
  bob.actor.on_start = [&](Context& c) {
    c.ConnectPeer(ann.id(), path.endpoint());
    c.Send(ann.id(), Pong{1});
  };
  bob.actor.on_message = [&](Context& c, const NodeId&, const Message&) {
    if (++got < kCount) return;
    ann.loop->Post([](Context& a) { a.Stop(0, ""); });
    c.Stop(0, "");
  };
  bob.Start();
  ann.Start();
  CHECK(ann.Join() == "0");
  CHECK(bob.Join() == "0");
  CHECK(got == kCount);
  CHECK(path.carried_most() < path.carried() * 2 / 3);
}

TEST_CASE("Faults: a peer whose address changes in the middle is reached at the new one",
          "[faults][loop]") {
  Transfer transfer;
  WildPath moved(transfer.bob.loop->endpoint());
  const int64_t size = SizeOf(transfer.payload);
  transfer.path->CloseAfter(5 * size, [&] {
    transfer.ann.loop->Post(
        [&](Context& c) { c.ConnectPeer(transfer.bob.id(), moved.endpoint()); });
  });
  transfer.Run();
  CHECK(moved.carried() >= kMessages * size - transfer.path->carried());
  CHECK(moved.carried() > (kMessages - 6) * size);
}

TEST_CASE("Faults: control that a way swallowed is said again over the next one, at once",
          "[faults][loop]") {
  Process ann(1), bob(2);
  ann.Open(ann.Options());
  bob.Open(bob.Options());
  WildPath path(bob.loop->endpoint()), moved(bob.loop->endpoint());
  int got = 0;
  Instant dialled, there;  // of ann's clock
  ann.actor.on_start = [&](Context& c) {
    c.ConnectPeer(bob.id(), path.endpoint());
    c.Send(bob.id(), Pong{1});
  };
  bob.actor.on_start = [&](Context& c) { c.ConnectPeer(ann.id(), ""); };
  bob.actor.on_message = [&](Context& c, const NodeId&, const Message&) {
    path.Hold(false, true);
    for (int i = 0; i < kSwallowed; ++i) c.Send(ann.id(), Heartbeat{.waiting_for = ""});
    c.StartTimer(Duration::Millis(200));
  };
  bob.actor.on_timer = [&](Context&, TimerId) {
    ann.loop->Post([&](Context& a) {
      dialled = a.now();
      a.ConnectPeer(bob.id(), moved.endpoint());
    });
  };
  ann.actor.on_message = [&](Context& c, const NodeId&, const Message&) {
    if (++got < kSwallowed) return;
    there = c.now();
    bob.loop->Post([](Context& b) { b.Stop(0, ""); });
    c.Stop(0, "");
  };
  bob.Start();
  ann.Start();
  CHECK(ann.Join() == "0");  // four at a time, every eight seconds, it would not be in time
  CHECK(bob.Join() == "0");
  CHECK(got == kSwallowed);
  CHECK(there - dialled < Duration::Seconds(1.8));  // the courier itself waits for two
}

TEST_CASE("Transport: a connection made anew is known to who listens, though the dialler is silent",
          "[reach][loop]") {
  Process ann(1), bob(2);
  ann.Open(ann.Options());
  bob.Open(bob.Options());
  WildPath path(bob.loop->endpoint());
  bool got = false, is_broken = false;
  ann.actor.on_start = [&](Context& c) {
    c.ConnectPeer(bob.id(), path.endpoint());
    c.Send(bob.id(), Pong{1});
  };
  ann.actor.on_message = [&](Context& c, const NodeId&, const Message&) {
    got = true;
    bob.loop->Post([](Context& b) { b.Stop(0, ""); });
    c.Stop(0, "");
  };
  bob.actor.on_start = [&](Context& c) { c.ConnectPeer(ann.id(), ""); };
  bob.actor.on_message = [](Context& c, const NodeId&, const Message&) {
    c.StartTimer(Duration::Millis(500));  // all is acknowledged
  };
  bob.actor.on_timer = [&](Context& c, TimerId) {
    if (std::exchange(is_broken, true)) return c.Send(ann.id(), Pong{2});
    path.BreakAll();
    c.StartTimer(Duration::Millis(500));
  };
  bob.Start();
  ann.Start();
  CHECK(ann.Join() == "0");
  CHECK(bob.Join() == "0");
  CHECK(got);
}

// It knocked when the connection was made, and says nothing now.
TEST_CASE("Transport: who was hung up on and is here again is reached by its own connection",
          "[reach][loop]") {
  Process ann(1), bob(2);
  ann.Open(ann.Options());
  bob.Open(bob.Options());
  const Payload payload = MakePayload(Bytes(300'000, 7));
  int got = 0;
  ann.actor.on_start = [&](Context& c) {
    c.ConnectPeer(bob.id(), bob.loop->endpoint());
    c.Send(bob.id(), Pong{1});
  };
  ann.actor.on_message = [&](Context& c, const NodeId&, const Message&) {
    if (++got < 2) return;
    bob.loop->Post([](Context& b) { b.Stop(0, ""); });
    c.Stop(0, "");
  };
  bob.actor.on_start = [&](Context& c) { c.ConnectPeer(ann.id(), ""); };
  bob.actor.on_message = [](Context& c, const NodeId&, const Message&) {
    c.StartTimer(Duration::Millis(500));  // all is acknowledged
  };
  bob.actor.on_timer = [&](Context& c, TimerId) {
    c.DisconnectPeer(ann.id());
    c.ConnectPeer(ann.id(), "");
    for (int i = 0; i < 2; ++i) c.Send(ann.id(), Gradient{i, 0, 0, 0, 0, payload});
  };
  bob.Start();
  ann.Start();
  CHECK(ann.Join() == "0");
  CHECK(bob.Join() == "0");
  CHECK(got == 2);
}

}  // namespace
}  // namespace skerry
