// The inside of EventLoop: the Context that actors see, and the turns of the loop.
//
// One turn: wait for a socket, the bell or the alarm; then interrupts, posted functions, due
// timers, finished jobs, messages to oneself, frames; then what the courier repeats and what the
// shaper lets go. Every handler is followed by its effects before anything else happens.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/id_hash.h"
#include "wire/coordinator_route.h"
#include "wire/courier.h"
#include "wire/device_thread.h"
#include "wire/event_loop.h"
#include "wire/interrupt.h"
#include "wire/shaper.h"
#include "wire/transport/transport.h"
#include "wire/wakeup.h"

namespace skerry {

class EventLoop::Core final : public Context {
 public:
  static absl::StatusOr<std::unique_ptr<Core>> Open(EventLoopOptions options);

  absl::StatusOr<int> Run(Actor& actor);
  void Post(std::function<void(Context&)> function);
  const std::vector<std::string>& endpoints() const { return transport_->endpoints(); }
  uint64_t incarnation() const { return incarnation_; }
  void Lead(int64_t epoch);
  void SetCoordinatorEndpoints(std::vector<std::string> endpoints) {
    std::erase_if(endpoints, [](const auto& endpoint) { return !endpoint.starts_with("tcp://"); });
    if (route_) route_->SetEndpoints(std::move(endpoints));
  }
  const std::string& stop_reason() const { return stop_reason_; }
  TransportCounters counters() const;
  std::map<NodeId, NodeId> Relayed() const { return transport_->Relayed(); }
  std::set<NodeId> Punched() const { return transport_->Punched(); }
  std::optional<LinkReading> Shown(const NodeId& peer) const {
    return shaper_ ? std::nullopt : transport_->Shown(peer);
  }
  void SetLimits(double up, double down) { transport_->SetLimits(up, down); }

  NodeId self() const override { return options_.identity.id(); }
  Instant now() const override { return now_; }
  Rng& rng() override { return rng_; }
  void Send(const NodeId& to, SharedMessage message) override;
  void Withdraw(const NodeId& to, TrafficClass traffic,
                std::function<bool(const Message&)> is_obsolete) override;
  TimerId StartTimer(Duration after) override;
  void CancelTimer(TimerId id) override;
  JobId Submit(Job job) override;
  void Persist(std::string record) override;
  void Event(const std::string& kind, const std::string& json_fields) override;
  void ConnectPeer(const NodeId& peer, const std::string& endpoint) override;
  void DisconnectPeer(const NodeId& peer) override;
  void SetRelays(const std::vector<NodeId>& relays) override;
  void TryReach(const NodeId& node, const std::vector<std::string>& listens) override;
  void Stop(int exit_code, const std::string& reason) override;

 private:
  struct SendEffect {
    NodeId to;
    SharedMessage message;
  };
  struct WithdrawEffect {
    NodeId to;
    TrafficClass traffic = TrafficClass::kControl;
    std::function<bool(const Message&)> is_obsolete;
  };
  struct SubmitEffect {
    JobId id;
    Job job;
  };
  struct EventEffect {
    std::string kind;
    std::string json_fields;
  };
  struct ConnectEffect {
    NodeId peer;
    std::string endpoint;
  };
  struct DisconnectEffect {
    NodeId peer;
  };
  struct RelaysEffect {
    std::vector<NodeId> relays;
  };
  struct ReachEffect {
    NodeId node;
    std::vector<std::string> listens;
  };
  struct StopEffect {
    int exit_code;
    std::string reason;
  };
  using Effect = std::variant<SendEffect, WithdrawEffect, SubmitEffect, EventEffect, ConnectEffect,
                              DisconnectEffect, RelaysEffect, ReachEffect, StopEffect>;

  Core(EventLoopOptions options, uint64_t incarnation, std::unique_ptr<Transport> transport,
       Instant start);

  // Runs a handler, notes how long it took, carries its effects out.
  void Handle(const std::function<void()>& handler);
  void CarryOut();
  // Asks until the answer is not ResourceExhausted, and does nothing else meanwhile.
  absl::Status StandStill(const std::string& kind, const std::function<absl::Status()>& ask);
  // False: this process leads no more, and the loop has ended.
  bool Leads();
  void Do(SendEffect effect);
  void Do(WithdrawEffect effect);
  void Do(SubmitEffect effect);
  void Do(EventEffect effect);
  void Do(ConnectEffect effect);
  void Do(DisconnectEffect effect);
  void Do(RelaysEffect effect);
  void Do(ReachEffect effect);
  void Do(StopEffect effect);
  void Fail(const absl::Status& status);

  void Turn();
  void Wait();
  std::optional<Instant> NextDeadline();
  void OnInterrupts();
  void OnPosted();
  void OnTimers();
  void OnJobs();
  void OnOwnMessages();
  void OnReached();
  void OnSilentCoordinator();
  void OnTick();
  void OnFrame(Transport::Received received);
  void AnswerReplaced(const NodeId& from, const FrameHeader& heard,
                      std::vector<Courier::Outgoing>& out) const;
  // Whether a stranger's frame may pass; may take its message away.
  bool MaySpeak(const NodeId& who);
  bool MayPass(Transport::Received& received);
  void RepeatDue();
  void RepeatLost(const NodeId& peer, bool bulk_too);
  void SendDue();
  void NoteStalls();
  void SendOut(std::vector<Courier::Outgoing>& out);
  std::optional<LinkShape> LinkTo(const NodeId& peer) const;
  void Drain();

  Instant Clock() const { return Instant::FromNanos((MonotonicNow() - start_).nanos()); }

  EventLoopOptions options_;
  uint64_t incarnation_;
  std::unique_ptr<Transport> transport_;
  Courier courier_;
  std::optional<Shaper> shaper_;
  std::optional<CoordinatorRoute> route_;  // of a node
  Rng rng_;
  Bell bell_;
  Alarm alarm_;
  Instant start_;
  Instant now_;

  Actor* actor_ = nullptr;
  bool ended_ = false;
  absl::Status failure_;
  int exit_code_ = 0;
  std::string stop_reason_;

  std::vector<std::string> records_;
  std::vector<Effect> effects_;
  // Of messages that came together the records become durable together, and what their handlers
  // want waits for that: a disk takes some milliseconds each time.
  bool gathers_ = false;

  TimerId next_timer_ = 1;
  std::set<std::pair<Instant, TimerId>> timers_;
  std::map<TimerId, Instant> timer_due_;
  JobId next_job_ = 1;
  std::array<std::unique_ptr<DeviceThread>, kJobQueues> queues_;  // each from its first job on
  std::deque<SharedMessage> own_messages_;

  std::mutex posted_mutex_;
  std::vector<std::function<void(Context&)>> posted_;
  bool closed_ = false;  // with posted_mutex_

  std::unique_ptr<InterruptWatch> interrupts_;
  std::optional<Instant> interrupt_deadline_;
  std::optional<Instant> tick_;

  absl::flat_hash_set<NodeId, IdHash>
      connected_;  // admitted: the coordinator and whom ConnectPeer named
  struct Stranger {
    int frames = 0;  // it was let say, of kHellosPerKeyMax
    Instant since;   // one is forgiven every kStrangerForgivenEvery from then on
  };
  std::map<NodeId, Stranger> strangers_;
  std::set<NodeId> stalled_;    // nothing in bulk gets through to them
  bool retry_soon_ = false;     // the ROUTER has a full pipe
  TransportCounters counters_;  // those of the loop itself
};

}  // namespace skerry
