// Frames: from the courier of one process through a network to the courier of another.
#include <algorithm>
#include <utility>

#include "common/check.h"
#include "sim/simulation_process.h"

namespace skerry {
namespace {

constexpr int64_t kAcknowledgementBytes = 100;
// What waits for a plain link longer is not taken: couriers repeat what they hear nothing of, and a
// slow link would take for ever to carry all that.
constexpr Duration kLinkQueueMax = Duration::Seconds(60);
// With repeats every two seconds a third loss of one frame would be a silence that nothing caused.
constexpr int kLossesInRowMax = 2;
constexpr size_t kLostKept = 32;

int64_t FrameBytes(const Frame& frame) {
  return frame.message ? WireSize(*frame.message) : kAcknowledgementBytes;
}

}  // namespace

Simulation::PeerLink::PeerLink(const CourierOptions& options, uint64_t incarnation,
                               const Process& to, uint32_t own)
    : peer(to.index), index(own), session(options, incarnation), peer_id(to.id) {}

bool Simulation::PeerLink::IsNeedless(const FrameHeader& header, uint32_t life_of_peer) {
  const bool anew = peer_life != life_of_peer || own_incarnation != header.sender_incarnation ||
                    (peer_incarnation != 0 && peer_incarnation != header.receiver_incarnation);
  peer_life = life_of_peer;
  own_incarnation = header.sender_incarnation;
  peer_incarnation = header.receiver_incarnation;
  if (anew) {
    in_connection.Clear();
    bulk_in_connection.reset();
  }
  return header.sequence != 0 && !InConnection(header.lane).Add(header.sequence);
}

SentFrames& Simulation::PeerLink::InConnection(size_t lane) {
  if (lane == 0) return in_connection;
  if (!bulk_in_connection)
    bulk_in_connection = std::make_unique<std::array<SentFrames, kTrafficClasses - 1>>();
  return (*bulk_in_connection)[lane - 1];
}

Simulation::PeerLink& Simulation::LinkTo(Process& process, int32_t peer) {
  if (!process.links.empty() && process.links.front()->peer == peer) return *process.links.front();
  const auto [it, added] =
      process.link_of.try_emplace(peer, static_cast<uint32_t>(process.links.size()));
  if (added) {
    process.links.push_back(
        std::make_unique<PeerLink>(courier_options_, process.incarnation, At(peer), it->second));
  }
  return *process.links[it->second];
}

void Simulation::SendMessage(Process& process, const NodeId& to, SharedMessage message) {
  Tell([&](SimulationObserver& o) { o.OnSent(now_, process.id, to, *message); });
  const bool to_first = !process.links.empty() && process.links.front()->peer_id == to;
  const int32_t peer = to_first ? process.links.front()->peer : IndexOf(to);
  if (peer == process.index) {
    const size_t slot = Keep(peer, peer, Frame{{}, std::move(message)});
    Schedule(now_, process, kOwn, slot);
    return;
  }
  PeerLink& link = LinkTo(process, peer);
  link.spoken = true;
  link.session.Send(process.clock.Read(now_), std::move(message), outgoing_);
  longest_queue_ever_ =
      std::max(longest_queue_ever_, static_cast<int64_t>(link.session.unacknowledged()));
  Transmit(process, link);
  ArmCourier(process, link);
}

// Plain links have no queue that anything could be taken from.
void Simulation::Withdraw(Process& process, const NodeId& to, TrafficClass traffic,
                          const std::function<bool(const Message&)>& is_obsolete) {
  if (!network_ || to == process.id) return;
  PeerLink& link = LinkTo(process, IndexOf(to));
  link.session.Withdraw(
      traffic,
      [&](size_t lane, uint64_t sequence, const Message& message) {
        if (!is_obsolete(message) || !TakeBack(process, link, lane, sequence)) return false;
        Tell([&](SimulationObserver& o) { o.OnWithdrawn(now_, process.id, to, message); });
        return true;
      },
      outgoing_);
  Transmit(process, link);
}

bool Simulation::TakeBack(const Process& process, PeerLink& link, size_t lane, uint64_t sequence) {
  for (size_t slot = 0; slot < in_flight_.size(); ++slot) {
    const InFlight& kept = in_flight_[slot];
    const FrameHeader& header = kept.frame.header;
    if (!kept.frame.message || kept.from != process.index || kept.to != link.peer ||
        kept.from_life != process.life || header.lane != lane || header.sequence != sequence ||
        header.sender_incarnation != link.session.incarnation()) {
      continue;
    }
    if (link.bulk < 0 || !network_->Withdraw(link.bulk, slot)) return false;
    link.InConnection(lane).Remove(sequence);
    Release(slot);
    return true;
  }
  return false;
}

// Both were told of each other. What is not sent now the courier repeats.
bool Simulation::HaveMet(const Process& a, const Process& b) const {
  if (!options_.known_to_all) return true;
  if (a.id == *options_.known_to_all || b.id == *options_.known_to_all) return true;
  return a.connected.contains(b.index) && b.connected.contains(a.index);
}

void Simulation::Transmit(Process& process, PeerLink& link) {
  if (!HaveMet(process, At(link.peer))) {
    frames_lost_ += static_cast<int64_t>(outgoing_.size());
    outgoing_.clear();
    return;
  }
  for (Frame& frame : outgoing_) {
    if (network_) {
      TransmitOverNetwork(process, link, std::move(frame));
    } else {
      TransmitOverLink(process, At(link.peer), std::move(frame));
    }
  }
  outgoing_.clear();
}

bool Simulation::IsWaiting(const LinkQueue& queue, const FrameHeader& header) {
  return header.sequence != 0 &&
         std::any_of(queue.waiting.begin(), queue.waiting.end(), [&](const auto& waiting) {
           const FrameHeader& first = waiting.header;
           return first.lane == header.lane && first.sequence == header.sequence &&
                  first.sender_incarnation == header.sender_incarnation &&
                  (first.receiver_incarnation == 0 ||
                   first.receiver_incarnation == header.receiver_incarnation);
         });
}

bool Simulation::MayBeLost(LinkQueue& queue, const FrameHeader& header, double loss) {
  if (header.sequence == 0 || loss >= 1) return true;
  const auto it = std::find_if(queue.lost.begin(), queue.lost.end(), [&](const auto& lost) {
    return lost.lane == header.lane && lost.sequence == header.sequence &&
           lost.incarnation == header.sender_incarnation;
  });
  if (it == queue.lost.end()) {
    queue.lost.push_back({header.lane, header.sequence, header.sender_incarnation, 1});
    if (queue.lost.size() > kLostKept) queue.lost.pop_front();
    return true;
  }
  return ++it->times <= kLossesInRowMax;
}

void Simulation::TransmitOverLink(Process& process, const Process& to, Frame frame) {
  const SimLink link = options_.link(process.id, to.id);
  LinkQueue& queue = link_queues_[{process.index, to.index}];
  while (!queue.waiting.empty() && queue.waiting.front().leaves <= now_) queue.waiting.pop_front();
  if (IsWaiting(queue, frame.header)) {  // only its acknowledgement is news
    ++frames_held_back_;
    frame.header.sequence = 0;
    frame.message.reset();
  }
  if (queue.free - now_ > kLinkQueueMax) {  // as a router drops what its queue has no room for
    ++frames_lost_;
    return;
  }
  const auto bytes = static_cast<double>(FrameBytes(frame));
  queue.free = std::max(queue.free, now_) + Duration::Seconds(bytes / link.bytes_per_s);
  if (frame.header.sequence != 0) queue.waiting.push_back({frame.header, queue.free});
  const Instant free = queue.free;
  const int copies = network_rng_.Uniform() < link.repetition ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    if (network_rng_.Uniform() < link.loss && MayBeLost(queue, frame.header, link.loss)) {
      ++frames_lost_;
      continue;
    }
    const Instant arrival =
        free + link.one_way + Duration::Seconds(network_rng_.Uniform() * link.jitter.seconds());
    Schedule(arrival, to, kFrame, Keep(process.index, to.index, frame));
  }
}

void Simulation::TransmitOverNetwork(Process& process, PeerLink& link, Frame frame) {
  const Process& peer = At(link.peer);
  if (!peer.up) {  // nobody accepts the connection
    ++frames_lost_;
    return;
  }
  if (link.IsNeedless(frame.header, peer.life)) {
    ++frames_held_back_;
    return;
  }
  const size_t slot = Keep(process.index, link.peer, std::move(frame));
  InFlight& kept = in_flight_[slot];
  kept.from_life = process.life;
  kept.sender_link = link.index;
  if (link.back_life == peer.life) kept.receiver_link = link.back;
  HandOver(process, link, slot);
}

// As in the real host: bulk has connections of its own, where its classes go in their order.
void Simulation::HandOver(const Process& process, PeerLink& link, size_t slot) {
  const Frame& frame = in_flight_[slot].frame;
  const TrafficClass traffic = frame.message ? ClassOf(*frame.message) : TrafficClass::kControl;
  const bool is_signal = traffic == TrafficClass::kControl;
  int32_t& connection = is_signal ? link.signals : link.bulk;
  if (connection < 0)
    connection = network_->Open(process.node, At(link.peer).node,
                                is_signal ? FlowKind::kSignals : FlowKind::kBulk);
  network_->Send(now_, connection, FrameBytes(frame), slot, static_cast<uint8_t>(traffic));
}

size_t Simulation::Keep(int32_t from, int32_t to, Frame frame) {
  if (free_slots_.empty()) {
    free_slots_.push_back(in_flight_.size());
    in_flight_.emplace_back();
  }
  const size_t slot = free_slots_.back();
  free_slots_.pop_back();
  InFlight& kept = in_flight_[slot];
  kept.from = from;
  kept.to = to;
  kept.to_life = At(to).life;
  kept.from_life = 0;
  kept.receiver_link = kNoLink;
  kept.frame = std::move(frame);
  return slot;
}

void Simulation::Release(size_t slot) {
  in_flight_[slot].frame.message.reset();
  free_slots_.push_back(slot);
}

void Simulation::TakeArrival() {
  const FlowNetwork::Arrival arrival = arrivals_[next_arrival_++];
  ++events_;
  Trace(static_cast<uint64_t>(now_.nanos()));
  const InFlight& frame = in_flight_[arrival.tag];
  if (arrival.lost) {
    OnLost(arrival);
    return;
  }
  Process& process = At(frame.to);
  if (process.hung) {
    process.waiting.push_back({now_.nanos(), process.index, process.life, arrival.tag, kFrame, 0});
    return;
  }
  OnFrame(process, arrival.tag);
}

// The connection is gone. What had not left waits for the next one, as in ZeroMQ's queue; the rest
// the courier repeats.
void Simulation::OnLost(const FlowNetwork::Arrival& arrival) {
  const InFlight& frame = in_flight_[arrival.tag];
  Trace(frame.frame.header.sequence);
  Process& sender = At(frame.from);
  const Process& receiver = At(frame.to);
  const auto it = sender.link_of.find(frame.to);
  const bool same_lives =
      it != sender.link_of.end() && receiver.life == frame.to_life &&
      frame.frame.header.sender_incarnation == sender.links[it->second]->own_incarnation;
  if (arrival.unsent && same_lives) {
    HandOver(sender, *sender.links[it->second], arrival.tag);
    return;
  }
  ++frames_lost_;
  if (it != sender.link_of.end()) {
    const FrameHeader& header = frame.frame.header;
    sender.links[it->second]->InConnection(header.lane).Remove(header.sequence);
  }
  Release(arrival.tag);
}

void Simulation::OnFrame(Process& process, size_t slot) {
  const int32_t sender = in_flight_[slot].from;
  const bool meant_for_another_life = network_ && in_flight_[slot].to_life != process.life;
  if (!process.up || meant_for_another_life) {
    Release(slot);
    ++frames_lost_;
    return;
  }
  const uint32_t hint = in_flight_[slot].receiver_link;
  PeerLink& link = hint != kNoLink ? *process.links[hint] : LinkTo(process, sender);
  link.back = in_flight_[slot].sender_link;
  link.back_life = in_flight_[slot].from_life;
  Trace(in_flight_[slot].frame.header.sequence ^ static_cast<uint64_t>(sender) << 40);
  const NodeId from = link.peer_id;
  link.spoken = true;
  const bool restarted = link.session.OnFrame(
      process.clock.Read(now_), std::move(in_flight_[slot].frame), outgoing_, delivered_);
  Release(slot);
  Transmit(process, link);
  const uint32_t life = process.life;
  if (restarted) OnPeerRestarted(process, from);
  for (const SharedMessage& message : delivered_) {
    if (process.life != life) break;
    OnMessage(process, from, *message);
  }
  delivered_.clear();
  if (process.life == life) ArmCourier(process, link);
}

void Simulation::OnCourier(Process& process, PeerLink& link, Instant at) {
  // Armed anew for another time since; later than armed only after a hang.
  if (!link.armed || *link.armed > at) return;
  link.armed.reset();
  link.session.Tick(process.clock.Read(now_), outgoing_);
  Transmit(process, link);
  ArmCourier(process, link);
}

void Simulation::ArmCourier(Process& process, PeerLink& link) {
  const std::optional<Instant> due = link.session.NextDue();
  if (!due) return;
  const Instant at = std::max(now_, process.clock.When(*due));
  if (link.armed && *link.armed <= at) return;
  link.armed = at;
  Schedule(at, process, kCourier, link.index);
}

void Simulation::Forget(Process& process, const NodeId& peer) {
  process.connected.erase(IndexOf(peer));
  const auto found = process.link_of.find(IndexOf(peer));
  if (found == process.link_of.end()) return;
  PeerLink& link = *process.links[found->second];
  if (!link.spoken) return;
  link.spoken = false;
  const uint64_t incarnation =
      CourierSession::IncarnationAfter(process.incarnation, ++link.times_forgotten);
  link.session = CourierSession(courier_options_, incarnation);
}

}  // namespace skerry
