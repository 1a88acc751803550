// Frames: from the courier of one process through a network to the courier of another.
#include <algorithm>
#include <utility>

#include "common/check.h"
#include "sim/simulation_process.h"

namespace skerry {
namespace {

constexpr int64_t kAcknowledgementBytes = 100;

int64_t FrameBytes(const Frame& frame) {
  return frame.message ? WireSize(*frame.message) : kAcknowledgementBytes;
}

}  // namespace

bool Simulation::PeerLink::IsNeedless(const FrameHeader& header, uint32_t life_of_peer) {
  const bool anew = peer_life != life_of_peer || own_incarnation != header.sender_incarnation ||
                    (peer_incarnation != 0 && peer_incarnation != header.receiver_incarnation);
  peer_life = life_of_peer;
  own_incarnation = header.sender_incarnation;
  peer_incarnation = header.receiver_incarnation;
  if (anew) {
    in_connection.clear();
    last_sequence = 0;
  }
  if (header.sequence == 0) return false;
  if (header.sequence > last_sequence) {
    last_sequence = header.sequence;
    in_connection.push_back(header.sequence);
    if (in_connection.size() < prune_at) return false;
    const uint64_t open = std::min<uint64_t>(courier.Unacknowledged(peer_id), last_sequence);
    const auto first_open =
        std::upper_bound(in_connection.begin(), in_connection.end(), last_sequence - open);
    in_connection.erase(in_connection.begin(), first_open);
    prune_at = std::max<size_t>(16, 2 * in_connection.size());
    return false;
  }
  const auto at = std::lower_bound(in_connection.begin(), in_connection.end(), header.sequence);
  if (at != in_connection.end() && *at == header.sequence) return true;
  in_connection.insert(at, header.sequence);
  return false;
}

size_t Simulation::LinkTo(Process& process, int32_t peer) {
  if (!process.links.empty() && process.links.front()->peer == peer) return 0;
  const auto [it, added] = process.link_of.try_emplace(peer, process.links.size());
  if (added) {
    process.links.push_back(std::make_unique<PeerLink>(
        CourierOptions{options_.run, process.incarnation, options_.repeat_after,
                       options_.repeat_after_max.value_or(options_.repeat_after * 8)},
        peer, At(peer).id, it->second));
  }
  return it->second;
}

void Simulation::SendMessage(Process& process, const NodeId& to, Message message) {
  Tell([&](SimulationObserver& o) { o.OnSent(now_, process.id, to, message); });
  const int32_t peer = IndexOf(to);
  if (peer == process.index) {
    const size_t slot = Keep(peer, peer, Frame{{}, std::move(message)});
    Schedule(now_, process, kOwn, slot);
    return;
  }
  PeerLink& link = *process.links[LinkTo(process, peer)];
  link.courier.Send(process.clock.Read(now_), to, std::move(message), outgoing_);
  Transmit(process, link);
  ArmCourier(process, link);
}

void Simulation::Transmit(Process& process, PeerLink& link) {
  for (Courier::Outgoing& outgoing : outgoing_) {
    if (network_) {
      TransmitOverNetwork(process, link, std::move(outgoing.frame));
    } else {
      TransmitOverLink(process, At(link.peer), std::move(outgoing.frame));
    }
  }
  outgoing_.clear();
}

void Simulation::TransmitOverLink(Process& process, const Process& to, Frame frame) {
  const SimLink link = options_.link(process.id, to.id);
  const auto bytes = static_cast<double>(FrameBytes(frame));
  Instant& free = link_free_[{process.index, to.index}];
  free = std::max(free, now_) + Duration::Seconds(bytes / link.bytes_per_s);
  const int copies = network_rng_.Uniform() < link.repetition ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    if (network_rng_.Uniform() < link.loss) {
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
  const int64_t bytes = FrameBytes(frame);
  const size_t slot = Keep(process.index, link.peer, std::move(frame));
  InFlight& kept = in_flight_[slot];
  kept.from_life = process.life;
  kept.sender_link = link.index;
  if (link.back_life == peer.life) kept.receiver_link = link.back;
  if (link.connection < 0) link.connection = network_->Open(process.node, peer.node);
  network_->Send(now_, link.connection, bytes, slot);
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
  kept.receiver_link = SIZE_MAX;
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
    network_->Send(now_, network_->Open(sender.node, receiver.node), FrameBytes(frame.frame),
                   arrival.tag);
    return;
  }
  ++frames_lost_;
  if (it != sender.link_of.end()) {
    auto& sent = sender.links[it->second]->in_connection;
    sent.erase(std::remove(sent.begin(), sent.end(), frame.frame.header.sequence), sent.end());
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
  Frame frame = std::move(in_flight_[slot].frame);
  const size_t hint = in_flight_[slot].receiver_link;
  const size_t back = in_flight_[slot].sender_link;
  const uint32_t back_life = in_flight_[slot].from_life;
  Release(slot);
  Trace(frame.header.sequence ^ static_cast<uint64_t>(sender) << 40);
  PeerLink& link = *process.links[hint != SIZE_MAX ? hint : LinkTo(process, sender)];
  link.back = back;
  link.back_life = back_life;
  const NodeId from = link.peer_id;
  const Courier::Delivered delivered =
      link.courier.OnFrame(process.clock.Read(now_), from, std::move(frame), outgoing_);
  Transmit(process, link);
  const uint32_t life = process.life;
  if (delivered.restarted) OnPeerRestarted(process, from);
  for (const Message& message : delivered.messages) {
    if (process.life != life) return;
    OnMessage(process, from, message);
  }
  if (process.life == life) ArmCourier(process, link);
}

void Simulation::OnCourier(Process& process, PeerLink& link, Instant at) {
  // Armed anew for another time since; later than armed only after a hang.
  if (!link.armed || *link.armed > at) return;
  link.armed.reset();
  link.courier.Tick(process.clock.Read(now_), outgoing_);
  Transmit(process, link);
  ArmCourier(process, link);
}

void Simulation::ArmCourier(Process& process, PeerLink& link) {
  const std::optional<Instant> due = link.courier.NextDue();
  if (!due) return;
  const Instant at = std::max(now_, process.clock.When(*due));
  if (link.armed && *link.armed <= at) return;
  link.armed = at;
  Schedule(at, process, kCourier, link.index);
}

void Simulation::Forget(Process& process, const NodeId& peer) {
  const auto link = process.link_of.find(IndexOf(peer));
  if (link != process.link_of.end()) process.links[link->second]->courier.Forget(peer);
}

}  // namespace skerry
