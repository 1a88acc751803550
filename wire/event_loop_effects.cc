// Effects of handlers, and frames in both directions.
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "wire/event_loop_core.h"

namespace skerry {
namespace {

constexpr size_t kStrangersMax = 4096;
constexpr Duration kStrangerForgivenEvery = Duration::Seconds(15);
constexpr char kOnlySmallPasses[] =
    ",\"why\":\"small messages pass and large ones do not: see MTU in skerry-node doctor --ticket "
    "TICKET\"";

}  // namespace

void EventLoop::Core::Send(const NodeId& to, SharedMessage message) {
  effects_.push_back(SendEffect{to, std::move(message)});
}

void EventLoop::Core::Withdraw(const NodeId& to, TrafficClass traffic,
                               std::function<bool(const Message&)> is_obsolete) {
  effects_.push_back(WithdrawEffect{to, traffic, std::move(is_obsolete)});
}

TimerId EventLoop::Core::StartTimer(Duration after) {
  const TimerId id = next_timer_++;
  const Instant due = now_ + std::max(after, Duration());
  timers_.insert({due, id});
  timer_due_[id] = due;
  return id;
}

void EventLoop::Core::CancelTimer(TimerId id) {
  const auto it = timer_due_.find(id);
  if (it == timer_due_.end()) return;
  timers_.erase({it->second, id});
  timer_due_.erase(it);
}

JobId EventLoop::Core::Submit(Job job) {
  const JobId id = next_job_++;
  effects_.push_back(SubmitEffect{id, std::move(job)});
  return id;
}

void EventLoop::Core::Persist(std::string record) {
  records_.push_back(std::move(record));
}

void EventLoop::Core::Event(const std::string& kind, const std::string& json_fields) {
  effects_.push_back(EventEffect{kind, json_fields});
}

void EventLoop::Core::ConnectPeer(const NodeId& peer, const std::string& endpoint) {
  effects_.push_back(ConnectEffect{peer, endpoint});
}

void EventLoop::Core::DisconnectPeer(const NodeId& peer) {
  effects_.push_back(DisconnectEffect{peer});
}

void EventLoop::Core::SetRelays(const std::vector<NodeId>& relays) {
  effects_.push_back(RelaysEffect{relays});
}

void EventLoop::Core::TryReach(const NodeId& node, const std::vector<std::string>& listens) {
  effects_.push_back(ReachEffect{node, listens});
}

void EventLoop::Core::Stop(int exit_code, const std::string& reason) {
  effects_.push_back(StopEffect{exit_code, reason});
  gathers_ = false;  // no handler runs after this one
}

void EventLoop::Core::Do(SendEffect effect) {
  if (effect.to == self()) {
    own_messages_.push_back(std::move(effect.message));
    return;
  }
  std::vector<Courier::Outgoing> out;
  courier_.Send(now_, effect.to, std::move(effect.message), out);
  SendOut(out);
}

void EventLoop::Core::Do(WithdrawEffect effect) {
  std::vector<Courier::Outgoing> out;
  const auto take_back = [&](size_t, uint64_t sequence, const Message& message) {
    if (!effect.is_obsolete(message)) return false;
    return (shaper_ && shaper_->Withdraw(effect.to, effect.traffic, sequence)) ||
           transport_->Withdraw(effect.to, effect.traffic, sequence);
  };
  courier_.Withdraw(effect.to, effect.traffic, take_back, out);
  SendOut(out);
}

void EventLoop::Core::Do(SubmitEffect effect) {
  auto& queue = queues_[static_cast<size_t>(effect.job.queue)];
  if (!queue) queue = std::make_unique<DeviceThread>([this] { bell_.Ring(); });
  queue->Submit(effect.id, std::move(effect.job));
}

void EventLoop::Core::Do(EventEffect effect) {
  if (options_.event_sink) options_.event_sink(effect.kind, effect.json_fields);
}

void EventLoop::Core::Do(ConnectEffect effect) {
  if (effect.peer == self()) return;
  const bool dial = effect.endpoint.rfind("tcp://", 0) == 0;
  const bool relay = effect.endpoint == kThroughRelay;
  absl::Status status = dial    ? transport_->Dial(effect.peer, effect.endpoint)
                        : relay ? transport_->Relay(effect.peer)
                                : transport_->Await(effect.peer);
  if (status.ok() && !dial && !relay && !effect.endpoint.empty())
    status = InvalidArgument("an endpoint is tcp://address:port");
  // A peer that named a nonsensical endpoint can still dial us.
  if (!status.ok()) Do(EventEffect{"unreachable", "{\"node\":\"" + effect.peer.Short() + "\"}"});
  connected_.insert(effect.peer);
  strangers_.erase(effect.peer);
}

void EventLoop::Core::Do(DisconnectEffect effect) {
  if (shaper_) {
    // A last word (Refused, Shutdown) is not worth less for being slow.
    for (OutgoingFrame& frame : shaper_->Forget(effect.peer)) {
      if (frame.traffic == TrafficClass::kControl) transport_->Send(std::move(frame));
    }
  }
  transport_->HangUp(effect.peer);
  courier_.Forget(effect.peer);
  stalled_.erase(effect.peer);
  connected_.erase(effect.peer);
}

void EventLoop::Core::Do(RelaysEffect effect) {
  transport_->SetRelays(std::move(effect.relays),
                        options_.coordinator ? options_.coordinator->id : NodeId());
}

void EventLoop::Core::Do(ReachEffect effect) {
  transport_->TryReach(effect.node, effect.listens);
}

void EventLoop::Core::Do(StopEffect effect) {
  if (ended_) return;
  ended_ = true;
  exit_code_ = effect.exit_code;
  stop_reason_ = effect.reason;
}

std::optional<LinkShape> EventLoop::Core::LinkTo(const NodeId& peer) const {
  if (!shaper_ || !options_.region_of) return std::nullopt;
  return options_.shape->Between(options_.region, options_.region_of(peer));
}

void EventLoop::Core::SendOut(std::vector<Courier::Outgoing>& out) {
  for (Courier::Outgoing& outgoing : out) {
    const auto& message = outgoing.frame.message;
    const auto traffic = message ? ClassOf(*message) : TrafficClass::kControl;
    const bool in_chunks =
        traffic != TrafficClass::kControl &&
        (courier_.FormatFor(outgoing.to) >= kFormatWithLanes || transport_->UsesRelay(outgoing.to));
    auto encoded = Encode(outgoing.frame, self(), outgoing.to,
                          in_chunks ? DigestPlace::kTransfer : DigestPlace::kEnvelope);
    if (!encoded.ok()) {
      Fail(encoded.status());
      return;
    }
    OutgoingFrame frame{outgoing.to,
                        traffic,
                        std::move(encoded->envelope),
                        std::move(encoded->payload),
                        in_chunks,
                        in_chunks ? outgoing.frame.header.sequence : 0};
    if (const auto link = LinkTo(frame.to)) {
      shaper_->SetLink(frame.to, *link);
      shaper_->Enqueue(now_, std::move(frame));
    } else {
      transport_->Send(std::move(frame));
    }
  }
}

// Whoever waits for an operator's approval goes on saying Hello, slowly.
bool EventLoop::Core::MaySpeak(const NodeId& who) {
  if (strangers_.size() >= kStrangersMax && !strangers_.contains(who)) {
    for (const auto& [stranger, frames] : strangers_) {
      courier_.Forget(stranger);
      transport_->HangUp(stranger);  // and what could not be said to it
    }
    strangers_.clear();
  }
  const Instant now = Clock();
  Stranger& stranger = strangers_.try_emplace(who, Stranger{0, now}).first->second;
  while (stranger.frames > 0 && now - stranger.since >= kStrangerForgivenEvery) {
    stranger.since = stranger.since + kStrangerForgivenEvery;
    --stranger.frames;
  }
  if (stranger.frames == 0) stranger.since = now;
  if (stranger.frames >= kHellosPerKeyMax) return false;
  ++stranger.frames;
  return true;
}

bool EventLoop::Core::MayPass(Transport::Received& received) {
  if (connected_.contains(received.decoded.sender)) return true;
  Frame& frame = received.decoded.frame;
  if (options_.role == HostRole::kCoordinator) {
    if (MaySpeak(received.decoded.sender)) {
      if (frame.message && std::holds_alternative<Hello>(*frame.message)) return true;
      // Somebody who knew the process that was here before: an acknowledgement tells it of this
      // one.
      const bool stale =
          frame.header.receiver_incarnation != 0 &&
          frame.header.receiver_incarnation != courier_.IncarnationFor(received.decoded.sender);
      if (stale || !frame.message) {
        frame.message.reset();
        frame.header.sequence = 0;
        return true;
      }
    }
  }
  ++counters_.refused_unadmitted;
  return false;
}

// Each would wait for ever for answers that the other gets.
void EventLoop::Core::AnswerReplaced(const NodeId& from, const FrameHeader& heard,
                                     std::vector<Courier::Outgoing>& out) const {
  const CourierSession* session = courier_.SessionWith(from);
  if (options_.role != HostRole::kCoordinator || session == nullptr) return;
  if (!session->IsOfReplaced(heard)) return;
  Refused refused{
      "another process with this node's key has joined since: its home was copied, or "
      "is used on two machines [SK-node-twice]",
      false};
  out.push_back({from, session->AnswerReplaced(heard, Share(std::move(refused)))});
}

void EventLoop::Core::OnFrame(Transport::Received received) {
  if (ended_ || !MayPass(received)) return;
  const NodeId from = received.decoded.sender;
  std::vector<Courier::Outgoing> out;
  AnswerReplaced(from, received.decoded.frame.header, out);
  now_ = Clock();
  if (route_ && from == options_.coordinator->id) route_->OnHeard(now_);
  const Courier::Delivered delivered =
      courier_.OnFrame(now_, from, std::move(received.decoded.frame), out);
  if (delivered.restarted) transport_->DropBulk(from);
  SendOut(out);
  if (delivered.restarted) Handle([&] { actor_->OnPeerRestarted(*this, from); });
  for (const SharedMessage& message : delivered.messages) {
    // An actor that hung up on the peer has heard enough of it.
    Handle([&] { actor_->OnMessage(*this, from, *message); });
  }
}

void EventLoop::Core::RepeatDue() {
  now_ = Clock();
  const auto due = courier_.NextDue();
  if (ended_ || !due || *due > now_) return;
  std::vector<Courier::Outgoing> out;
  courier_.Tick(now_, out);
  for (Courier::Outgoing& outgoing : out) {
    if (!outgoing.frame.message) continue;
    const bool still_here =
        transport_->Waiting(outgoing.to, ClassOf(*outgoing.frame.message)) > 0 ||
        (shaper_ && shaper_->Waiting(outgoing.to) > 0);
    if (!still_here) continue;
    // The first copy has not left yet: only its acknowledgement is news.
    outgoing.frame.message.reset();
    outgoing.frame.header.sequence = 0;
  }
  SendOut(out);
}

void EventLoop::Core::RepeatLost(const NodeId& peer, bool bulk_too) {
  std::vector<Courier::Outgoing> out;
  courier_.RepeatLost(Clock(), peer, bulk_too, out);
  SendOut(out);
}

void EventLoop::Core::SendDue() {
  if (!failure_.ok()) return;
  if (shaper_) {
    std::vector<OutgoingFrame> arrived;
    shaper_->Advance(Clock(), arrived);
    for (OutgoingFrame& frame : arrived) transport_->Send(std::move(frame));
  }
  retry_soon_ = transport_->Flush();
  NoteStalls();
}

// Whoever waits for a transfer that does not get on is told within seconds, and when it does again.
// One that has stood still for long begins anew, whatever the reason: the courier repeats what was
// not acknowledged, and the receiver knows what it has.
void EventLoop::Core::NoteStalls() {
  const std::map<NodeId, Transport::Stall> stalled = transport_->Stalled();
  for (const auto& [peer, stall] : stalled) {
    if (!stalled_.insert(peer).second) continue;
    const auto seconds = static_cast<int>((Clock() - stall.since).seconds());
    const char* why = stall.small_passes ? kOnlySmallPasses : "";
    Do(EventEffect{"stalled", "{\"node\":\"" + peer.Short() +
                                  "\",\"seconds\":" + std::to_string(seconds) + why + "}"});
  }
  std::erase_if(stalled_, [&](const NodeId& peer) {
    if (stalled.contains(peer)) return false;
    Do(EventEffect{"flowing", "{\"node\":\"" + peer.Short() + "\"}"});
    return true;
  });
  for (const auto& [peer, stall] : stalled) {
    if (Clock() - stall.since < BulkSender::kBeginsAnewAfter) continue;
    transport_->DropBulk(peer);
    RepeatLost(peer, true);
    stalled_.erase(peer);  // told again if it stands still again
  }
}

}  // namespace skerry
