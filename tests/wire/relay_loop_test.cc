// Real processes that cannot dial each other: through the coordinator, through a relay that dies,
// and one that only one side can dial. Real sockets; nothing here depends on how fast they are.
#include <catch2/catch.hpp>
#include <map>
#include <mutex>

#include "scripted_actor.h"

namespace skerry {
namespace {

Bytes Pattern(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 31 + i / 977);
  return bytes;
}

// A coordinator that admits whoever says Hello.
void Serve(Process& coordinator) {
  coordinator.Open(coordinator.Options(HostRole::kCoordinator));
  coordinator.actor.on_message = [](Context& c, const NodeId& from, const Message& message) {
    if (std::holds_alternative<Hello>(message)) {
      c.ConnectPeer(from, "");
      c.Send(from, Welcome{});
    }
    if (std::holds_alternative<Leave>(message)) c.Stop(0, "");
  };
}

// A node that greets the coordinator; `then` runs once it is admitted.
void Join(Process& node, const Process& coordinator, bool relays,
          std::function<void(Context&)> then) {
  EventLoopOptions options = node.Options();
  options.coordinator = coordinator.address();
  options.relays = relays;
  node.Open(std::move(options));
  node.actor.on_start = [id = coordinator.id()](Context& c) { c.Send(id, Hello{}); };
  node.actor.on_message = [then = std::move(then)](Context& c, const NodeId&, const Message& m) {
    if (std::holds_alternative<Welcome>(m)) then(c);
  };
}

TEST_CASE("Relay: two nodes that nobody can dial talk through the coordinator", "[relay][loop]") {
  Process coordinator(1), ann(2), bob(3);
  Serve(coordinator);
  const Payload payload = MakePayload(Pattern((2 << 20) + 77));
  constexpr int kMessages = 6;
  int64_t arrived = 0;
  bool intact = true;
  std::map<NodeId, NodeId> relayed;
  Join(ann, coordinator, false, [&](Context& c) {
    c.ConnectPeer(bob.id(), kThroughRelay);
    for (int i = 0; i < kMessages; ++i) {
      c.Send(bob.id(), Gradient{i, 0, 0, 0, 0, payload});
      c.Send(bob.id(), Heartbeat{.step = i, .waiting_for = ""});
    }
  });
  Join(bob, coordinator, false, [&](Context& c) { c.ConnectPeer(ann.id(), kThroughRelay); });
  const auto greet = bob.actor.on_message;
  bob.actor.on_message = [&](Context& c, const NodeId& from, const Message& message) {
    greet(c, from, message);
    if (from != ann.id()) return;
    if (const auto* gradient = std::get_if<Gradient>(&message))
      intact = intact && *gradient->values == *payload;
    if (++arrived < 2 * kMessages) return;
    relayed = bob.loop->Relayed();
    c.Send(ann.id(), Leave{"enough"});
  };
  const auto welcome = ann.actor.on_message;
  ann.actor.on_message = [&](Context& c, const NodeId& from, const Message& message) {
    welcome(c, from, message);
    if (!std::holds_alternative<Leave>(message)) return;
    CHECK(from == bob.id());
    bob.loop->Post([](Context& b) { b.Stop(0, ""); });
    c.Send(coordinator.id(), Leave{"the end"});
    c.Stop(0, "");
  };
  coordinator.Start();
  ann.Start();
  bob.Start();
  CHECK(ann.Join() == "0");
  CHECK(bob.Join() == "0");
  CHECK(coordinator.Join() == "0");
  CHECK(arrived == 2 * kMessages);
  CHECK(intact);
  CHECK(relayed == std::map<NodeId, NodeId>{{ann.id(), coordinator.id()}});
  // It forwarded all of it and took none for its own.
  CHECK(coordinator.loop->counters().relayed_bytes > kMessages * SizeOf(payload));
  CHECK(coordinator.loop->counters().refused_malformed == 0);
  CHECK(bob.loop->counters().refused_sender == 0);
}

// As one with IPv4 only behind a router, and one with IPv6 only.
TEST_CASE("Relay: who is dialled in vain answers over the relay that it is called to",
          "[relay][loop]") {
  Process coordinator(1), ann(2), bob(3);
  Serve(coordinator);
  const Payload payload = MakePayload(Pattern(300'000));
  bool asked = false, answered = false;
  Join(ann, coordinator, false, [&](Context& c) {
    c.ConnectPeer(bob.id(), "tcp://127.0.0.1:1");  // nobody is there
    c.Send(bob.id(), Heartbeat{.waiting_for = ""});
  });
  Join(bob, coordinator, false, [&](Context& c) { c.ConnectPeer(ann.id(), ""); });
  bob.actor.on_message = [&, greet = bob.actor.on_message](Context& c, const NodeId& from,
                                                           const Message& message) {
    greet(c, from, message);
    if (from == ann.id() && !std::exchange(asked, true))
      c.Send(ann.id(), Gradient{0, 0, 0, 0, 0, payload});
  };
  ann.actor.on_message = [&, welcome = ann.actor.on_message](Context& c, const NodeId& from,
                                                             const Message& message) {
    welcome(c, from, message);
    if (!std::holds_alternative<Gradient>(message)) return;
    answered = true;
    bob.loop->Post([](Context& b) { b.Stop(0, ""); });
    c.Send(coordinator.id(), Leave{"the end"});
    c.Stop(0, "");
  };
  coordinator.Start();
  ann.Start();
  bob.Start();
  CHECK(ann.Join() == "0");
  CHECK(bob.Join() == "0");
  CHECK(coordinator.Join() == "0");
  CHECK(asked);
  CHECK(answered);
}

TEST_CASE("Relay: one that dies in the middle of a transfer loses and doubles nothing",
          "[relay][loop]") {
  Process coordinator(1), ann(2), bob(3), relay(4);
  Serve(coordinator);
  const Payload payload = MakePayload(Pattern(1 << 20));
  constexpr int kMessages = 24;
  std::vector<int64_t> steps;
  std::map<NodeId, NodeId> before, after;
  Join(relay, coordinator, true, [&](Context& c) {
    c.ConnectPeer(ann.id(), "");
    c.ConnectPeer(bob.id(), "");
  });
  const auto through_relay = [&](Context& c, const NodeId& peer) {
    c.ConnectPeer(relay.id(), relay.loop->endpoint());
    c.SetRelays({relay.id()});
    c.ConnectPeer(peer, kThroughRelay);
  };
  Join(ann, coordinator, false, [&](Context& c) {
    through_relay(c, bob.id());
    for (int i = 0; i < kMessages; ++i) c.Send(bob.id(), Gradient{i, 0, 0, 0, 0, payload});
  });
  Join(bob, coordinator, false, [&](Context& c) { through_relay(c, ann.id()); });
  const auto greet = bob.actor.on_message;
  bob.actor.on_message = [&](Context& c, const NodeId& from, const Message& message) {
    greet(c, from, message);
    const auto* gradient = std::get_if<Gradient>(&message);
    if (gradient == nullptr) return;
    CHECK(*gradient->values == *payload);
    steps.push_back(gradient->step);
    if (steps.size() == 3) {
      before = bob.loop->Relayed();
      relay.loop->Post([](Context& r) { r.Stop(0, "dies"); });
    }
    if (steps.size() < kMessages) return;
    after = bob.loop->Relayed();
    ann.loop->Post([](Context& a) { a.Stop(0, ""); });
    coordinator.loop->Post([](Context& r) { r.Stop(0, ""); });
    c.Stop(0, "");
  };
  coordinator.Start();
  relay.Start();
  ann.Start();
  bob.Start();
  CHECK(bob.Join() == "0");
  CHECK(ann.Join() == "0");
  std::vector<int64_t> all(kMessages);
  for (int i = 0; i < kMessages; ++i) all[static_cast<size_t>(i)] = i;
  CHECK(steps == all);
  CHECK(before == std::map<NodeId, NodeId>{{ann.id(), relay.id()}});
  CHECK(after == std::map<NodeId, NodeId>{{ann.id(), coordinator.id()}});
  CHECK(relay.loop->counters().relayed_bytes > 0);
}

TEST_CASE("Transport: of a pair that only one side can dial both send first", "[reach][loop]") {
  Process open(1), shut(2);
  open.Open(open.Options());
  shut.Open(shut.Options());
  const Payload payload = MakePayload(Pattern(3 << 20));
  int got = 0;
  bool intact = true;
  // Neither waits for the other to begin, and a reply is of the same size.
  const auto receive = [&](Context& c, const NodeId&, const Message& message) {
    intact = intact && *std::get<Gradient>(message).values == *payload;
    if (++got < 4) return;
    static_cast<void>(c);
    open.loop->Post([](Context& o) { o.Stop(0, ""); });
    shut.loop->Post([](Context& s) { s.Stop(0, ""); });
  };
  open.actor.on_start = [&](Context& c) {
    c.ConnectPeer(shut.id(), "");
    for (int i = 0; i < 2; ++i) c.Send(shut.id(), Gradient{i, 0, 0, 0, 0, payload});
  };
  shut.actor.on_start = [&](Context& c) { c.ConnectPeer(open.id(), open.loop->endpoint()); };
  std::mutex mutex;
  open.actor.on_message = [&](Context& c, const NodeId& from, const Message& message) {
    const std::lock_guard lock(mutex);
    receive(c, from, message);
  };
  shut.actor.on_message = [&](Context& c, const NodeId& from, const Message& message) {
    c.Send(from, Gradient{9, 0, 0, 0, 0, payload});
    const std::lock_guard lock(mutex);
    receive(c, from, message);
  };
  open.Start();
  shut.Start();
  CHECK(open.Join() == "0");
  CHECK(shut.Join() == "0");
  CHECK(got == 4);
  CHECK(intact);
}

TEST_CASE("Reachability: a coordinator dials back, and only the node itself answers",
          "[reach][loop]") {
  Process coordinator(1), open(2), shut(3);
  Serve(coordinator);
  std::map<NodeId, Reachability> found;
  std::string foreign;
  const auto serve = coordinator.actor.on_message;
  coordinator.actor.on_message = [&](Context& c, const NodeId& from, const Message& message) {
    serve(c, from, message);
    if (const auto* hello = std::get_if<Hello>(&message)) c.TryReach(from, {hello->endpoint});
    if (const auto* one = std::get_if<Reachability>(&message)) {
      CHECK(from == c.self());
      found[one->node] = *one;
      if (found.size() == 2) c.Stop(0, "");
    }
  };
  Join(open, coordinator, false, [](Context&) {});
  Join(shut, coordinator, false, [](Context&) {});
  open.actor.on_start = [&](Context& c) {
    Hello hello;
    hello.endpoint = open.loop->endpoint();
    c.Send(coordinator.id(), hello);
  };
  // Somebody listens there and speaks CURVE, with another key.
  shut.actor.on_start = [&](Context& c) {
    Hello hello;
    hello.endpoint = open.loop->endpoint();
    c.Send(coordinator.id(), hello);
  };
  coordinator.Start();
  open.Start();
  shut.Start();
  CHECK(coordinator.Join() == "0");
  open.loop->Post([](Context& c) { c.Stop(0, ""); });
  shut.loop->Post([](Context& c) { c.Stop(0, ""); });
  open.Join();
  shut.Join();
  CHECK(ReachableAt(found[open.id()]) == open.loop->endpoint());
  CHECK(found[open.id()].seen == "127.0.0.1");
  CHECK(ReachableAt(found[shut.id()]).empty());
  CHECK(found[shut.id()].tried.size() == 1);
}

}  // namespace
}  // namespace skerry
