// Processes that share one identity and take turns in leading, and nodes that look for them.

#include <catch2/catch.hpp>
#include <set>

#include "common/status.h"
#include "tests/wire/scripted_actor.h"
#include "wire/courier.h"

using namespace skerry;

TEST_CASE("EventLoop: who may not lead any more says nothing of what it had decided",
          "[wire][loop][error]") {
  Process process(1);
  auto options = process.Options();
  bool leads = true;
  std::vector<std::string> seen;
  options.journal = [&](const std::vector<std::string>&) {
    leads = false;  // between the record and what follows from it
    return absl::OkStatus();
  };
  options.leads = [&]() -> absl::Status {
    return leads ? absl::OkStatus() : Aborted("another leads");
  };
  options.event_sink = [&](const std::string& kind, const std::string&) { seen.push_back(kind); };
  process.Open(std::move(options));
  process.actor.on_start = [](Context& c) { c.Event("before", "{}"), c.StartTimer(Duration()); };
  process.actor.on_timer = [](Context& c, TimerId) {
    c.Persist("a");
    c.Event("after", "{}");
    c.Stop(0, "");
  };
  process.Start();
  CHECK(process.Join() == "another leads");
  CHECK(seen == std::vector<std::string>{"before"});
}

TEST_CASE("EventLoop: a leader that is not sure waits until it is", "[wire][loop][error]") {
  Process process(1);
  auto options = process.Options();
  std::vector<std::string> seen;
  int asked = 0;
  options.leads = [&]() -> absl::Status {
    if (++asked == 2) return ResourceExhausted("the \"database\" is silent");
    return absl::OkStatus();
  };
  options.event_sink = [&](const std::string& kind, const std::string& fields) {
    seen.push_back(kind == "lease_waits" ? fields : kind);
  };
  process.Open(std::move(options));
  process.loop->Lead(3);
  CHECK(EpochOf(process.loop->incarnation()) == 3);
  process.actor.on_start = [](Context& c) {
    c.Event("first", "{}");
    c.StartTimer(Duration());
  };
  process.actor.on_timer = [](Context& c, TimerId) { c.Stop(0, ""); };
  process.Start();
  CHECK(process.Join() == "0");
  CHECK(seen == std::vector<std::string>{"first", R"({"why":"the  database  is silent"})",
                                         "lease_goes_on"});
}

TEST_CASE("EventLoop: a node tries the coordinator's addresses in turn until one answers",
          "[wire][loop]") {
  Process nobody(3), coordinator(1), node(2);
  nobody.Open(nobody.Options(HostRole::kCoordinator));
  const std::string dead = nobody.loop->endpoint();
  nobody.loop.reset();
  coordinator.Open(coordinator.Options(HostRole::kCoordinator));
  auto options = node.Options();
  options.coordinator = {coordinator.id(), dead + "," + coordinator.loop->endpoint()};
  node.Open(std::move(options));
  node.actor.on_start = [&](Context& c) { c.Send(coordinator.id(), Hello{}); };
  node.actor.on_message = [](Context& c, const NodeId&, const Message&) { c.Stop(0, ""); };
  coordinator.actor.on_message = [](Context& c, const NodeId& from, const Message&) {
    c.ConnectPeer(from, "");
    c.Send(from, Refused{});
    c.Stop(0, "");
  };
  coordinator.Start();
  node.Start();
  CHECK(node.Join() == "0");
  CHECK(coordinator.Join() == "0");
}

TEST_CASE("EventLoop: a process that listens at two addresses is reached at both", "[wire][loop]") {
  Process house(1), first(2), second(3);
  EventLoopOptions options = house.Options();
  options.bind_endpoint = "tcp://127.0.0.1:*,tcp://127.0.0.2:*";
  house.Open(std::move(options));
  REQUIRE(house.loop->endpoints().size() == 2);
  std::set<NodeId> heard;
  house.actor.on_start = [&](Context& c) {
    c.ConnectPeer(first.id(), "");
    c.ConnectPeer(second.id(), "");
  };
  house.actor.on_message = [&](Context& c, const NodeId& from, const Message&) {
    heard.insert(from);
    if (heard.size() == 2) c.Stop(0, "");
  };
  int next = 0;
  for (Process* guest : {&first, &second}) {
    guest->Open(guest->Options());
    guest->actor.on_start = [&, at = next++](Context& c) {
      c.ConnectPeer(house.id(), house.loop->endpoints()[static_cast<size_t>(at)]);
      c.Send(house.id(), Pong{1});
    };
  }
  house.Start();
  first.Start();
  second.Start();
  CHECK(house.Join() == "0");
  CHECK(heard == std::set<NodeId>{first.id(), second.id()});
}
