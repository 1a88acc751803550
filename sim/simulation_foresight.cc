// Ten thousand processes do not fit a cache, and each event touches one of them: most of the time
// would go into waiting for memory. The events of the next millisecond are known, so all they will
// touch is fetched at once, level by level of the pointers that lead to it. Nothing else happens
// here: leaving it out changes no result.
#include "common/warm.h"
#include "sim/simulation_process.h"

namespace skerry {
namespace {

constexpr size_t kHotProcessBytes = 128;

void WarmMessage(const Message* message) {
  if (message != nullptr) Warm(message, sizeof(Message));
}

}  // namespace

void Simulation::Foresee() {
  foreseen_.clear();
  size_t senders = 0;  // of foreseen_, the first: they will use their connection
  if (queue_.turns() != turns_seen_) {
    turns_seen_ = queue_.turns();
    for (const SimulatedEvent& event : queue_.soon()) {
      if (event.process < 0 || event.kind == kScript || event.kind == kOwn) continue;
      // Most processes talk to one other, their coordinator.
      foreseen_.push_back({&At(event.process), event.kind == kCourier ? event.value : 0});
    }
    senders = foreseen_.size();
  }
  if (network_ && network_->turns() != network_turns_seen_) {
    network_turns_seen_ = network_->turns();
    network_->ForEachSoon([&](uint64_t tag) { Warm(&in_flight_[tag], sizeof(InFlight)); });
    network_->ForEachSoon([&](uint64_t tag) {
      const InFlight& arriving = in_flight_[tag];
      WarmMessage(arriving.frame.message.get());
      const uint32_t link = arriving.receiver_link;
      foreseen_.push_back({&At(arriving.to), link == kNoLink ? 0 : link});
    });
  }
  for (const Foreseen& next : foreseen_) Warm(next.process, kHotProcessBytes);
  for (const Foreseen& next : foreseen_) {
    if (next.process->actor) Warm(next.process->actor.get(), 1);
    if (next.link < next.process->links.size()) Warm(&next.process->links[next.link], 1);
  }
  for (const Foreseen& next : foreseen_) {
    if (next.link < next.process->links.size())
      Warm(next.process->links[next.link].get(), sizeof(PeerLink));
  }
  if (!network_) return;
  for (size_t i = senders; i < foreseen_.size(); ++i) {
    const auto& links = foreseen_[i].process->links;
    if (foreseen_[i].link < links.size()) WarmMessage(links[foreseen_[i].link]->session.oldest());
  }
  const auto connection_of = [](const Foreseen& next) {
    return next.link < next.process->links.size() ? next.process->links[next.link]->signals : -1;
  };
  for (size_t i = 0; i < senders; ++i) {
    const int32_t connection = connection_of(foreseen_[i]);
    if (connection < 0) continue;
    network_->Prefetch(connection);
    Warm(&At(foreseen_[i].process->links[foreseen_[i].link]->peer), 1);
  }
  for (size_t i = 0; i < senders; ++i) {
    const int32_t connection = connection_of(foreseen_[i]);
    if (connection >= 0) network_->PrefetchLinks(connection);
  }
}

}  // namespace skerry
