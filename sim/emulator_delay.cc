#include "sim/emulator_delay.h"

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "common/status.h"
#include "wire/event_loop.h"

namespace skerry {
namespace {

constexpr size_t kRoundTrips = 64;
constexpr Duration kPatience = Duration::Seconds(5);
constexpr LinkShape kLine{Duration::Millis(1), 125e6};
constexpr char kRegion[] = "here";

// Pings its peer, or answers.
class Pinger final : public Actor {
 public:
  Pinger(NodeId peer, std::string endpoint) : peer_(peer), endpoint_(std::move(endpoint)) {}

  const std::vector<Duration>& round_trips() const { return round_trips_; }

  void OnStart(Context& context) override {
    context.ConnectPeer(peer_, endpoint_);
    context.StartTimer(kPatience);
    if (!endpoint_.empty()) Send(context);
  }
  void OnTimer(Context& context, TimerId) override { context.Stop(1, ""); }
  void OnJobDone(Context&, JobId) override {}
  void OnPeerRestarted(Context&, const NodeId&) override {}
  void OnMessage(Context& context, const NodeId& from, const Message& message) override {
    if (const auto* ping = std::get_if<Ping>(&message)) context.Send(from, Pong{ping->nonce});
    if (!std::holds_alternative<Pong>(message)) return;
    round_trips_.push_back(context.now() - sent_);
    if (round_trips_.size() == kRoundTrips) return context.Stop(0, "");
    Send(context);
  }

 private:
  void Send(Context& context) {
    sent_ = context.now();
    context.Send(peer_, Ping{round_trips_.size(), 0});
  }

  NodeId peer_;
  std::string endpoint_;  // of who answers; "" at that end
  Instant sent_;
  std::vector<Duration> round_trips_;
};

absl::StatusOr<std::unique_ptr<EventLoop>> OpenLoop(const Identity& identity) {
  WanShape shape;
  shape.regions = {kRegion};
  shape.same_region = kLine;
  return EventLoop::Open(
      {.identity = identity, .shape = shape, .region = kRegion, .region_of = [](const NodeId&) {
         return std::string(kRegion);
       }});
}

}  // namespace

absl::StatusOr<Duration> MeasureEmulatorDelay() {
  const Identity near = Identity::Generate(), far = Identity::Generate();
  SKERRY_ASSIGN_OR_RETURN(const auto near_loop, OpenLoop(near));
  SKERRY_ASSIGN_OR_RETURN(const auto far_loop, OpenLoop(far));
  Pinger pings(far.id(), far_loop->endpoint()), answers(near.id(), "");
  std::thread answering([&] { static_cast<void>(far_loop->Run(answers)); });
  const auto ended = near_loop->Run(pings);
  far_loop->Post([](Context& context) { context.Stop(0, ""); });
  answering.join();
  SKERRY_RETURN_IF_ERROR(ended.status());
  if (*ended != 0) {
    return Unavailable("two sockets of this machine do not hear each other over 127.0.0.1");
  }
  std::vector<Duration> sorted = pings.round_trips();
  std::ranges::sort(sorted);
  return std::max(sorted[sorted.size() / 4] - kLine.one_way * 2, Duration());
}

WanShape Without(WanShape shape, Duration own) {
  const auto shorten = [&](LinkShape& link) {
    link.one_way = std::max(link.one_way - own / 2, Duration());
  };
  for (auto& [ends, link] : shape.links) shorten(link);
  shorten(shape.same_region);
  return shape;
}

}  // namespace skerry
