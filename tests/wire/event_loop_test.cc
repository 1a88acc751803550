#include "wire/event_loop.h"

#include <catch2/catch.hpp>
#include <mutex>
#include <set>

#include "common/digest.h"
#include "common/status.h"
#include "scripted_actor.h"

namespace skerry {
namespace {

// Tells each of two processes of the other, before they start.
void Introduce(Process& a, Process& b) {
  a.loop->Post([peer = b.address()](Context& c) { c.ConnectPeer(peer.id, peer.endpoint); });
  b.loop->Post([peer = a.address()](Context& c) { c.ConnectPeer(peer.id, peer.endpoint); });
}

Bytes Pattern(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 31 + i / 977);
  return bytes;
}

TEST_CASE("EventLoop: timers fire once, in the order of their times, and not if cancelled",
          "[wire][loop]") {
  Process process(1);
  process.Open(process.Options());
  std::vector<TimerId> started, fired;
  process.actor.on_start = [&](Context& c) {
    CHECK(c.now() >= Instant());
    for (const int millis : {30, 10, 20, 15})
      started.push_back(c.StartTimer(Duration::Millis(millis)));
    c.CancelTimer(started[2]);
  };
  process.actor.on_timer = [&](Context& c, TimerId timer) {
    fired.push_back(timer);
    if (fired.size() == 3) c.Stop(7, "done");
  };
  process.Start();
  CHECK(process.Join() == "7");
  CHECK(process.loop->stop_reason() == "done");
  CHECK(fired == std::vector<TimerId>{started[1], started[3], started[0]});
}

TEST_CASE("EventLoop: jobs run one after another on another thread and report back",
          "[wire][loop]") {
  Process process(1);
  process.Open(process.Options());
  std::vector<int> order;
  std::vector<JobId> submitted, done;
  std::thread::id job_thread;
  process.actor.on_start = [&](Context& c) {
    for (int i = 0; i < 3; ++i) {
      submitted.push_back(c.Submit({"job", Duration(), [&, i] {
                                      order.push_back(i);
                                      job_thread = std::this_thread::get_id();
                                    }}));
    }
    CHECK(order.empty());
  };
  process.actor.on_job = [&](Context& c, JobId job) {
    CHECK(job_thread != std::this_thread::get_id());
    done.push_back(job);
    if (done.size() == 3) c.Stop(0, "");
  };
  process.Start();
  CHECK(process.Join() == "0");
  CHECK(order == std::vector<int>{0, 1, 2});
  CHECK(done == submitted);
}

TEST_CASE("EventLoop: a message to oneself comes back as a later event", "[wire][loop]") {
  Process process(1);
  process.Open(process.Options());
  bool sent = false;
  process.actor.on_start = [&](Context& c) {
    c.Send(c.self(), Pong{4});
    sent = true;
  };
  process.actor.on_message = [&](Context& c, const NodeId& from, const Message& message) {
    CHECK(sent);
    CHECK(from == c.self());
    c.Stop(static_cast<int>(std::get<Pong>(message).nonce), "");
  };
  process.Start();
  CHECK(process.Join() == "4");
}

TEST_CASE("EventLoop: what is taken back before it left does not arrive, what follows does",
          "[wire][loop]") {
  Process alice(1), bob(2);
  alice.Open(alice.Options());
  bob.Open(bob.Options());
  Introduce(alice, bob);
  std::vector<int64_t> rounds;
  alice.actor.on_message = [&](Context& c, const NodeId&, const Message& message) {
    if (std::get<Pong>(message).nonce == 2) return c.Stop(0, "");
    const Payload payload = MakePayload(Bytes(8 << 20));
    for (const int64_t round : {1, 2, 3}) c.Send(bob.id(), Delta{0, round, 1, {}, payload, 1});
    c.Withdraw(bob.id(), TrafficClass::kDelta,
               [](const Message& queued) { return std::get<Delta>(queued).round < 3; });
  };
  bob.actor.on_start = [&](Context& c) { c.Send(alice.id(), Pong{1}); };
  bob.actor.on_message = [&](Context& c, const NodeId&, const Message& message) {
    rounds.push_back(std::get<Delta>(message).round);
    if (rounds.back() == 3) c.Send(alice.id(), Pong{2}), c.Stop(0, "");
  };
  for (Process* process : {&alice, &bob}) process->Start();
  CHECK(bob.Join() + alice.Join() == "00");
  CHECK((rounds == std::vector<int64_t>{3} || rounds == std::vector<int64_t>{1, 3}));
}

TEST_CASE("EventLoop: two processes exchange messages and payloads of many parts, in order",
          "[wire][loop]") {
  Process alice(1), bob(2);
  alice.Open(alice.Options());
  bob.Open(bob.Options());
  Introduce(alice, bob);
  const Payload payload = MakePayload(Pattern((3 << 20) + 12345));
  constexpr int kMessages = 40;
  std::vector<int64_t> steps;
  bool intact = true;
  alice.actor.on_start = [&](Context& c) {
    for (int i = 0; i < kMessages; ++i) {
      if (i % 8 == 0) {
        c.Send(bob.id(), Gradient{i, 0, 0, 0, 0, payload});
      } else {
        c.Send(bob.id(), Heartbeat{.step = i, .waiting_for = ""});
      }
    }
  };
  alice.actor.on_message = [&](Context& c, const NodeId& from, const Message& message) {
    CHECK(from == bob.id());
    CHECK(std::holds_alternative<Leave>(message));
    c.Stop(0, "");
  };
  bob.actor.on_message = [&](Context& c, const NodeId& from, const Message& message) {
    CHECK(from == alice.id());
    if (const auto* gradient = std::get_if<Gradient>(&message)) {
      steps.push_back(gradient->step);
      intact = intact && *gradient->values == *payload;
    } else {
      steps.push_back(std::get<Heartbeat>(message).step);
    }
    if (steps.size() < kMessages) return;
    c.Send(from, Leave{"enough"});
    c.Stop(0, "");
  };
  alice.Start();
  bob.Start();
  CHECK(alice.Join() == "0");
  CHECK(bob.Join() == "0");
  std::vector<int64_t> all(kMessages);
  for (int i = 0; i < kMessages; ++i) all[static_cast<size_t>(i)] = i;
  CHECK(steps == all);
  CHECK(intact);
  CHECK(alice.loop->counters().bytes_sent >= 5 * SizeOf(payload));
  CHECK(bob.loop->counters().bytes_received >= 5 * SizeOf(payload));
  CHECK(bob.loop->counters().refused_malformed == 0);
}

TEST_CASE(
    "EventLoop: nodes that only know the coordinator reach it and are answered, and then "
    "each other",
    "[wire][loop]") {
  Process coordinator(1), left(2), right(3);
  coordinator.Open(coordinator.Options(HostRole::kCoordinator));
  std::vector<Peer> peers;
  int farewells = 0;
  coordinator.actor.on_message = [&](Context& c, const NodeId& from, const Message& message) {
    if (const auto* hello = std::get_if<Hello>(&message)) {
      c.ConnectPeer(from, "");  // the coordinator never dials
      peers.push_back({from, hello->endpoint, ""});
      if (peers.size() < 2) return;
      for (const Peer& peer : peers) c.Send(peer.id, Peers{true, 0, peers, {}});
    } else if (std::holds_alternative<Leave>(message) && ++farewells == 2) {
      for (const Peer& peer : peers) c.Send(peer.id, Shutdown{""});
      c.Stop(0, "");
    }
  };
  for (Process* node : {&left, &right}) {
    auto options = node->Options();
    options.coordinator = coordinator.address();
    node->Open(std::move(options));
    node->actor.on_start = [node](Context& c) {
      Hello hello;
      hello.endpoint = node->loop->endpoint();
      c.Send(node->actor.coordinator, hello);
    };
    node->actor.coordinator = coordinator.id();
    node->actor.on_message = [node](Context& c, const NodeId& from, const Message& message) {
      if (const auto* list = std::get_if<Peers>(&message)) {
        for (const Peer& peer : list->peers) {
          c.ConnectPeer(peer.id, peer.endpoint);
          if (peer.id != c.self()) c.Send(peer.id, Ping{1, 1 << 20});
        }
      } else if (std::holds_alternative<Ping>(message)) {
        c.Send(from, Pong{1});
      } else if (std::holds_alternative<Pong>(message)) {
        c.Send(node->actor.coordinator, Leave{"seen my peer"});
      } else if (std::holds_alternative<Shutdown>(message)) {
        c.Stop(0, "");
      }
    };
  }
  coordinator.Start();
  left.Start();
  right.Start();
  CHECK(coordinator.Join() == "0");
  CHECK(left.Join() == "0");
  CHECK(right.Join() == "0");
}

TEST_CASE("EventLoop: records are durable before any message of the same handler leaves",
          "[wire][loop]") {
  Process writer(1), reader(2);
  std::vector<std::string> journal;
  std::vector<size_t> batches;
  std::mutex mutex;
  auto options = writer.Options();
  options.journal = [&](std::vector<std::string> records) {
    const std::lock_guard lock(mutex);
    batches.push_back(records.size());
    journal.insert(journal.end(), records.begin(), records.end());
    return absl::OkStatus();
  };
  writer.Open(std::move(options));
  reader.Open(reader.Options());
  Introduce(writer, reader);
  writer.actor.on_start = [&](Context& c) {
    c.Send(reader.id(), Pong{1});  // asked for before the records, and yet after them
    c.Persist("a");
    c.Persist("b");
    CHECK(journal.empty());
  };
  writer.actor.on_message = [&](Context& c, const NodeId&, const Message&) { c.Stop(0, ""); };
  reader.actor.on_message = [&](Context& c, const NodeId& from, const Message&) {
    {
      const std::lock_guard lock(mutex);
      CHECK(journal == std::vector<std::string>{"a", "b"});
      CHECK(batches == std::vector<size_t>{2});
    }
    c.Send(from, Pong{2});
    c.Stop(0, "");
  };
  writer.Start();
  reader.Start();
  CHECK(writer.Join() == "0");
  CHECK(reader.Join() == "0");
}

TEST_CASE("EventLoop: a journal that fails ends the loop, and nothing of that handler happens",
          "[wire][loop][error]") {
  Process process(1);
  auto options = process.Options();
  bool event_seen = false;
  options.journal = [](std::vector<std::string>) { return DataLoss("disk full"); };
  options.event_sink = [&](const std::string&, const std::string&) { event_seen = true; };
  process.Open(std::move(options));
  process.actor.on_start = [&](Context& c) {
    c.Event("round", "{}");
    c.Persist("a");
    c.Stop(0, "");
  };
  process.Start();
  CHECK(process.Join() == "journal: disk full");
  CHECK_FALSE(event_seen);
}

TEST_CASE("EventLoop: a full disk is waited for, and nothing of that handler happens before",
          "[wire][loop][error]") {
  Process process(1);
  auto options = process.Options();
  int tries = 0;
  std::vector<std::string> seen;
  options.journal = [&](const std::vector<std::string>& records) -> absl::Status {
    CHECK(records == std::vector<std::string>{"a"});
    if (++tries == 1) return ResourceExhausted("disk full");
    seen.push_back("durable");
    return absl::OkStatus();
  };
  options.event_sink = [&](const std::string& kind, const std::string&) { seen.push_back(kind); };
  process.Open(std::move(options));
  process.actor.on_start = [&](Context& c) {
    c.Event("round", "{}");
    c.Persist("a");
    c.Stop(0, "");
  };
  process.Start();
  CHECK(process.Join() == "0");
  CHECK(tries == 2);
  CHECK(seen == std::vector<std::string>{"journal_waits", "durable", "journal_goes_on", "round"});
}

TEST_CASE("EventLoop: a restarted process is reported to its peer, and both talk on",
          "[wire][loop]") {
  Process stays(1), before(2), after(2);
  stays.Open(stays.Options(HostRole::kCoordinator));
  const auto join = [&](Process& node, uint64_t nonce) {
    auto options = node.Options();
    options.coordinator = stays.address();
    node.Open(std::move(options));
    node.actor.on_start = [&stays, nonce](Context& c) {
      c.Send(stays.id(), Hello{});
      c.Send(stays.id(), Pong{nonce});
    };
    node.actor.on_message = [](Context& c, const NodeId&, const Message&) { c.Stop(0, ""); };
  };
  std::vector<std::string> heard;
  stays.actor.on_start = [&](Context& c) { c.ConnectPeer(before.id(), ""); };
  stays.actor.on_restart = [&](Context&, const NodeId& peer) {
    CHECK(peer == after.id());
    heard.push_back("restarted");
  };
  stays.actor.on_message = [&](Context& c, const NodeId& from, const Message& message) {
    const auto* pong = std::get_if<Pong>(&message);
    heard.push_back(pong ? "pong " + std::to_string(pong->nonce) : "hello");
    if (pong) c.Send(from, Pong{0});
    if (pong && pong->nonce == 2) c.Stop(0, "");
  };
  stays.Start();
  join(before, 1);
  before.Start();
  CHECK(before.Join() == "0");
  before.loop.reset();
  join(after, 2);
  after.Start();
  CHECK(after.Join() == "0");
  CHECK(stays.Join() == "0");
  CHECK(heard == std::vector<std::string>{"hello", "pong 1", "restarted", "hello", "pong 2"});
}

TEST_CASE("EventLoop: a shaped line is as slow as its shape says", "[wire][loop]") {
  WanShape shape;
  shape.regions = {"us", "eu"};
  shape.links[{"us", "eu"}] = {Duration::Millis(60), 4e6};
  shape.links[{"eu", "us"}] = {Duration::Millis(30), 0};
  Process us(1), eu(2);
  auto options = us.Options();
  options.shape = shape;
  options.region = "us";
  options.region_of = [](const NodeId&) { return "eu"; };
  us.Open(std::move(options));
  options = eu.Options();
  options.shape = shape;
  options.region = "eu";
  options.region_of = [](const NodeId&) { return "us"; };
  eu.Open(std::move(options));
  Introduce(us, eu);
  Instant sent;
  Duration took;
  us.actor.on_message = [&](Context& c, const NodeId& from, const Message& message) {
    if (std::get<Pong>(message).nonce == 1) {  // the connection stands
      sent = c.now();
      c.Send(from, Ping{2, 400'000});
    } else {
      took = c.now() - sent;
      c.Send(from, Leave{""});
      c.Stop(0, "");
    }
  };
  us.actor.on_start = [&](Context& c) { c.Send(eu.id(), Ping{1}); };
  eu.actor.on_message = [&](Context& c, const NodeId& from, const Message& message) {
    if (const auto* ping = std::get_if<Ping>(&message)) {
      c.Send(from, Pong{ping->nonce});
    } else {
      c.Stop(0, "");
    }
  };
  us.Start();
  eu.Start();
  CHECK(us.Join() == "0");
  CHECK(eu.Join() == "0");
  CHECK(took >= Duration::Millis(190));  // 100 ms of line + 60 + 30
}

TEST_CASE("EventLoop: a region that the shape does not name and an endpoint in use are errors",
          "[wire][loop][error]") {
  Process first(1), second(2);
  first.Open(first.Options());
  auto options = second.Options();
  SECTION("region") {
    options.shape = WanShape{};
    options.region = "nowhere";
    CHECK(absl::IsInvalidArgument(EventLoop::Open(std::move(options)).status()));
  }
  SECTION("in use") {
    options.bind_endpoint = first.loop->endpoint();
    CHECK(absl::IsUnavailable(EventLoop::Open(std::move(options)).status()));
  }
  SECTION("nonsense") {
    options.bind_endpoint = "nonsense";
    CHECK(absl::IsInvalidArgument(EventLoop::Open(std::move(options)).status()));
  }
}

}  // namespace
}  // namespace skerry
