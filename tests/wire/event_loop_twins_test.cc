// Two living processes with one key.
#include <catch2/catch.hpp>
#include <utility>

#include "scripted_actor.h"
#include "wire/event_loop.h"

namespace skerry {

TEST_CASE("EventLoop: of two processes with one key the one that joined first is told",
          "[wire][loop]") {
  Process coordinator(1), first(2), second(2);
  coordinator.Open(coordinator.Options(HostRole::kCoordinator));
  coordinator.actor.on_start = [&](Context& c) { c.ConnectPeer(first.id(), ""); };
  coordinator.actor.on_message = [&](Context& c, const NodeId& from, const Message& message) {
    if (const auto* ping = std::get_if<Ping>(&message)) c.Send(from, Pong{ping->nonce});
    if (std::holds_alternative<Leave>(message)) c.Stop(0, "");
  };
  std::string refusal;
  const auto join = [&](Process& node, std::function<void(Context&, const Message&)> hears) {
    auto options = node.Options();
    options.coordinator = coordinator.address();
    node.Open(std::move(options));
    const auto speak = [&coordinator](Context& c) {
      c.Send(coordinator.id(), Ping{1});
      c.StartTimer(Duration::Millis(20));
    };
    node.actor.on_start = speak;
    node.actor.on_timer = [speak](Context& c, TimerId) { speak(c); };
    node.actor.on_message = [hears](Context& c, const NodeId&, const Message& message) {
      hears(c, message);
    };
  };
  int heard = 0, else_heard = 0;
  join(second, [&](Context& c, const Message& message) {
    ++(std::holds_alternative<Pong>(message) ? heard : else_heard);
    if (heard < 20) return;
    c.Send(coordinator.id(), Leave{"enough"});
    c.Stop(0, "");
  });
  bool has_begun = false;
  join(first, [&](Context& c, const Message& message) {
    if (!std::exchange(has_begun, true)) second.Start();
    const auto* refused = std::get_if<Refused>(&message);
    if (refused == nullptr) return;
    refusal = refused->reason;
    c.Stop(2, "");
  });
  coordinator.Start();
  first.Start();
  CHECK(first.Join() == "2");
  CHECK(second.Join() == "0");
  CHECK(coordinator.Join() == "0");
  CHECK(else_heard == 0);
  CHECK_THAT(refusal, Catch::Matchers::Contains("SK-node-twice"));
}

}  // namespace skerry
