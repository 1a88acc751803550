// Which streams give way to others of their sender, and by how much.
#include <algorithm>

#include "sim/flow_network.h"
#include "sim/flow_window.h"
#include "wire/message/traffic.h"
#include "wire/transport/sender_line.h"

namespace skerry {
namespace {

// As the transport has it.
constexpr int64_t kYieldingShare = SenderLine::kRestShare;

size_t Index(int32_t number) {
  return static_cast<size_t>(number);
}

bool IsUrgent(uint8_t rank) {
  return rank == static_cast<uint8_t>(TrafficClass::kActivation);
}

bool CanWait(uint8_t rank) {
  return rank == static_cast<uint8_t>(TrafficClass::kDelta) ||
         rank == static_cast<uint8_t>(TrafficClass::kState);
}

}  // namespace

void FlowNetwork::AddFlow(int32_t connection) {
  Connection& c = At(connection);
  Stream& s = *c.stream;
  const auto links = std::span(c.route.links).first(Index(c.route.link_count));
  const int64_t part = s.yielding > 0 ? kYieldingShare * s.yielding : 1;
  const int64_t weight = std::max<int64_t>(1, c.weight / part);
  s.flow = rates_.AddFlow(links, 1, weight);
  if (flow_owner_.size() <= Index(s.flow)) flow_owner_.resize(Index(s.flow) + 1);
  flow_owner_[Index(s.flow)] = connection;
}

void FlowNetwork::TouchSender(const Connection& c) {
  touched_.push_back(c.from);
  rates_dirty_ = true;
}

void FlowNetwork::WeighSenders(Instant now) {
  std::sort(touched_.begin(), touched_.end());
  touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
  const auto first = [this](int32_t connection) {
    return At(connection).stream->queue.front().rank;
  };
  for (const int32_t sender : touched_) {
    const std::vector<int32_t>& streams = streams_of_[Index(sender)];
    const bool is_urgent =
        std::ranges::any_of(streams, [&](int32_t stream) { return IsUrgent(first(stream)); });
    const auto waiting =
        std::ranges::count_if(streams, [&](int32_t stream) { return CanWait(first(stream)); });
    for (const int32_t stream : streams) {
      const bool yields = is_urgent && CanWait(first(stream));
      SetYielding(now, stream, yields ? static_cast<int32_t>(waiting) : 0);
    }
  }
  touched_.clear();
}

void FlowNetwork::SetYielding(Instant now, int32_t connection, int32_t yielding) {
  Connection& c = At(connection);
  Stream& s = *c.stream;
  if (s.yielding == yielding) return;
  Settle(now, c);
  s.yielding = yielding;
  rates_.RemoveFlow(s.flow);
  AddFlow(connection);
  rates_.SetCap(s.flow, std::min(s.window_cap, c.route.flow_cap));
  capped_.push_back(connection);
}

}  // namespace skerry
