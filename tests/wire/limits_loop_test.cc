// The rates of a volunteer, between real processes. A limit can only make slower, so that how busy
// the machine is decides nothing.
#include <atomic>
#include <catch2/catch.hpp>

#include "scripted_actor.h"

namespace skerry {
namespace {

// Seconds that `count` payloads of 100 kB took from the first to the last arrival. `shown`: what
// the sender's host says of the way afterwards.
double Carry(double up_bytes_per_s, double down_bytes_per_s, int count,
             std::optional<LinkReading>* shown = nullptr) {
  Process sender(1), receiver(2);
  EventLoopOptions sends = sender.Options(), receives = receiver.Options();
  sends.on_tick = [&](Context&) { sender.loop->SetLimits(up_bytes_per_s, 0); };
  receives.on_tick = [&](Context&) { receiver.loop->SetLimits(0, down_bytes_per_s); };
  sender.Open(std::move(sends));
  receiver.Open(std::move(receives));
  const Payload payload = MakePayload(Bytes(100'000, 7));
  std::optional<Instant> first;
  Instant last;
  int got = 0;
  // The first message tells both that there is somebody; then the limits stand.
  sender.actor.on_start = [&](Context& c) {
    c.ConnectPeer(receiver.id(), receiver.loop->endpoint());
    c.Send(receiver.id(), Pong{1});
  };
  sender.actor.on_message = [&](Context& c, const NodeId& from, const Message&) {
    for (int i = 0; i < count; ++i) c.Send(from, Gradient{i, 0, 0, 0, 0, payload});
  };
  receiver.actor.on_start = [&](Context& c) {
    c.ConnectPeer(sender.id(), sender.loop->endpoint());
  };
  receiver.actor.on_message = [&](Context& c, const NodeId& from, const Message& message) {
    if (std::holds_alternative<Pong>(message)) return c.Send(from, Pong{2});
    if (!first) first = c.now();
    last = c.now();
    if (++got < count) return;
    sender.loop->Post([&, to = receiver.id()](Context& s) {
      if (shown != nullptr) *shown = sender.loop->Shown(to);
      s.Stop(0, "");
    });
    c.Stop(0, "");
  };
  sender.Start();
  receiver.Start();
  CHECK(receiver.Join() == "0");
  CHECK(sender.Join() == "0");
  CHECK(got == count);
  return (last - first.value_or(last)).seconds();
}

TEST_CASE("Limits: what leaves a process, and what comes, keeps to the rate", "[relay][loop]") {
  constexpr int kCount = 20;
  constexpr double kRate = 1e6, kBytes = (kCount - 1) * 100'000;
  SECTION("up") {
    std::optional<LinkReading> shown;
    const double took_s = Carry(kRate, 0, kCount, &shown);
    CHECK(took_s > 0.85 * kBytes / kRate);
    REQUIRE(shown);
    CHECK(shown->target == Process(2).id());
    CHECK(shown->rtt_s > 0);
    CHECK(shown->rtt_s < took_s);
    CHECK(shown->bytes_per_s > 0.5 * kBytes / took_s);  // the best stretch, not the mean
  }
  SECTION("down") {
    // What was under way before the first acknowledgements were held back came at once.
    CHECK(Carry(0, kRate, kCount) > 0.6 * kBytes / kRate);
  }
}

TEST_CASE("Limits: an activation goes before what another peer gets, whoever that is",
          "[wire][loop]") {
  constexpr int kChunks = 10;
  const bool swapped = GENERATE(false, true);
  Process sender(1), busy(swapped ? 3 : 2), urgent(swapped ? 2 : 3);
  EventLoopOptions sends = sender.Options();
  sends.on_tick = [&](Context&) { sender.loop->SetLimits(1e6, 0); };
  sender.Open(std::move(sends));
  std::atomic<int> got = 0, got_before = -1, ended = 0;
  const auto stop_all = [&](Context& c) {
    if (++ended == 2) sender.loop->Post([](Context& s) { s.Stop(0, ""); });
    c.Stop(0, "");
  };
  for (Process* peer : {&busy, &urgent}) {
    peer->Open(peer->Options());
    peer->actor.on_start = [&](Context& c) {
      c.ConnectPeer(sender.id(), sender.loop->endpoint());
      c.Send(sender.id(), Pong{1});
    };
  }
  busy.actor.on_message = [&](Context& c, const NodeId&, const Message&) {
    if (++got == kChunks) stop_all(c);
  };
  urgent.actor.on_message = [&](Context& c, const NodeId&, const Message&) {
    got_before = got.load();
    stop_all(c);
  };
  int there = 0;
  const Payload payload = MakePayload(Bytes(100'000, 7));
  sender.actor.on_message = [&](Context& c, const NodeId&, const Message&) {
    if (++there < 2) return;
    for (int i = 0; i < kChunks; ++i)
      c.Send(busy.id(), ObjectChunk{"state", i * 100'000, kChunks * 100'000, payload});
    c.Send(urgent.id(), Gradient{0, 0, 0, 0, 0, payload});
  };
  sender.actor.on_start = [&](Context& c) {
    for (const Process* peer : {&busy, &urgent}) c.ConnectPeer(peer->id(), peer->loop->endpoint());
  };
  for (Process* process : {&sender, &busy, &urgent}) process->Start();
  for (Process* process : {&sender, &busy, &urgent}) CHECK(process->Join() == "0");
  CHECK(got == kChunks);
  CHECK(got_before >= 0);
  CHECK(got_before < kChunks / 2);
}

}  // namespace
}  // namespace skerry
