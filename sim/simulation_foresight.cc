// Ten thousand processes do not fit a cache, and each event touches one of them: most of the time
// would go into waiting for memory. The events of the next millisecond are known, so all they will
// touch is fetched at once, level by level of the pointers that lead to it. Nothing else happens
// here: leaving it out changes no result.
#include "sim/simulation_process.h"

namespace skerry {
namespace {

void Fetch(const void* object, size_t bytes) {
  for (size_t line = 0; line < bytes; line += 64)
    __builtin_prefetch(static_cast<const char*>(object) + line);
}

// A courier's session is allocated with its first message, right behind the link.
constexpr size_t kSessionBytes = 1024;
constexpr size_t kActorBytes = 64;
constexpr size_t kHotProcessBytes = 256;
constexpr size_t kHotFrameBytes = 256;

}  // namespace

void Simulation::Foresee() {
  foreseen_.clear();
  if (queue_.turns() != turns_seen_) {
    turns_seen_ = queue_.turns();
    for (const SimulatedEvent& event : queue_.soon()) {
      if (event.process < 0 || event.kind == kScript) continue;
      foreseen_.push_back({event.process, event.kind == kCourier ? event.value : SIZE_MAX});
    }
  }
  if (network_ && network_->turns() != network_turns_seen_) {
    network_turns_seen_ = network_->turns();
    network_->ForEachSoon([&](uint64_t tag) { Fetch(&in_flight_[tag], kHotFrameBytes); });
    network_->ForEachSoon([&](uint64_t tag) {
      foreseen_.push_back({in_flight_[tag].to, in_flight_[tag].receiver_link});
    });
  }
  for (const Foreseen& next : foreseen_) Fetch(&At(next.process), kHotProcessBytes);
  for (Foreseen& next : foreseen_) {
    const Process& process = At(next.process);
    if (process.actor) Fetch(process.actor.get(), kActorBytes);
    if (!process.timers.empty()) Fetch(process.timers.data(), sizeof(Process::Timer));
    // Most processes talk to one other, their coordinator.
    if (next.link == SIZE_MAX) next.link = 0;
    if (next.link < process.links.size()) Fetch(&process.links[next.link], 8);
  }
  for (const Foreseen& next : foreseen_) {
    const Process& process = At(next.process);
    if (next.link < process.links.size())
      Fetch(process.links[next.link].get(), sizeof(PeerLink) + kSessionBytes);
  }
  for (const Foreseen& next : foreseen_) {
    const Process& process = At(next.process);
    if (next.link >= process.links.size()) continue;
    const PeerLink& link = *process.links[next.link];
    if (network_ && link.connection >= 0) network_->Prefetch(link.connection);
    if (!link.in_connection.empty()) Fetch(link.in_connection.data(), 128);
    Fetch(&At(link.peer), 64);
  }
  if (!network_) return;
  for (const Foreseen& next : foreseen_) {
    const Process& process = At(next.process);
    if (next.link >= process.links.size()) continue;
    const int32_t connection = process.links[next.link]->connection;
    if (connection >= 0) network_->PrefetchLinks(connection);
  }
}

}  // namespace skerry
