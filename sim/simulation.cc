#include "sim/simulation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/check.h"
#include "sim/simulation_process.h"

namespace skerry {
namespace {

// As long as the real host waits for its last words to leave.
const Duration kLingerFor = Duration::Seconds(1);

}  // namespace

size_t Simulation::NodeIdHash::operator()(const NodeId& id) const {
  uint64_t words[4];
  std::memcpy(words, id.bytes.data(), sizeof(words));
  return Mix64(words[0] ^ Mix64(words[1] ^ Mix64(words[2] ^ words[3])));
}

Simulation::Simulation(SimulationOptions options)
    : options_(std::move(options)),
      effects_(std::make_unique<Effects>()),
      network_rng_(options_.seed, "network") {
  courier_options_ = {options_.run, 0, options_.repeat_after,
                      options_.repeat_after_max.value_or(options_.repeat_after * 8)};
  SKERRY_CHECK((options_.link != nullptr) != options_.network.has_value(),
               "a simulation has one network");
  if (options_.network) {
    network_ = std::make_unique<FlowNetwork>(options_.network->spec, options_.seed,
                                             options_.network->options);
  }
}
Simulation::~Simulation() = default;

void Simulation::Schedule(Instant at, const Process& process, EventKind kind, uint64_t value) {
  queue_.Push({std::max(at, now_).nanos(), process.index, process.life, value, kind, 0});
}

// Also of ids that nobody added: messages may name anybody.
int32_t Simulation::IndexOf(const NodeId& id) {
  const auto [it, added] = index_of_.try_emplace(id, static_cast<int32_t>(processes_.size()));
  if (added) {
    Process& process = processes_.emplace_back();
    process.id = id;
    process.index = it->second;
    if (options_.network) {
      const auto node = options_.network->node_of.find(id);
      if (node != options_.network->node_of.end()) process.node = node->second;
    }
  }
  return it->second;
}

Simulation::Process& Simulation::Known(const NodeId& id) {
  const auto it = index_of_.find(id);
  SKERRY_CHECK(it != index_of_.end(), "a process of this simulation");
  return At(it->second);
}
Simulation::Process& Simulation::At(int32_t index) {
  return processes_[static_cast<size_t>(index)];
}
const Simulation::Process& Simulation::Known(const NodeId& id) const {
  return const_cast<Simulation*>(this)->Known(id);
}

void Simulation::AddProcess(const NodeId& id, ActorFactory factory, Instant start) {
  Process& process = At(IndexOf(id));
  SKERRY_CHECK(process.factory == nullptr, "a process is added once");
  SKERRY_CHECK(!network_ || process.node >= 0, "every process has a node of the network");
  process.factory = std::move(factory);
  StartAt(start, id);
}

void Simulation::StartAt(Instant when, const NodeId& id, Disk disk) {
  scripts_.push_back([id, disk](Simulation& simulation) {
    Process& process = simulation.Known(id);
    if (!process.up) simulation.StartProcess(process, disk);
  });
  Schedule(when, Known(id), kScript, scripts_.size() - 1);
}

void Simulation::CrashAt(Instant when, const NodeId& id) {
  scripts_.push_back([id](Simulation& simulation) {
    Process& process = simulation.Known(id);
    if (process.up) simulation.CrashProcess(process);
  });
  Schedule(when, Known(id), kScript, scripts_.size() - 1);
}

void Simulation::At(Instant when, std::function<void(Simulation&)> action) {
  scripts_.push_back(std::move(action));
  queue_.Push({std::max(when, now_).nanos(), -1, 0, scripts_.size() - 1, kScript, 0});
}

void Simulation::StartProcess(Process& process, Disk disk) {
  SKERRY_CHECK(process.factory != nullptr, "a process is added before it starts");
  if (disk == Disk::kLost) {
    process.journal.clear();
    Tell([&](SimulationObserver& observer) { observer.OnDiskLost(now_, process.id); });
  }
  ++process.life;
  process.up = true;
  process.stopped.reset();
  process.rng = Rng(options_.seed, process.id.Hex(), process.life);
  process.incarnation = ProcessBits(process.rng.Next());
  process.actor = process.factory(process.journal);
  Trace(process.life);
  Trace(process.journal.size());
  Tell([&](SimulationObserver& observer) { observer.OnStart(now_, process.id); });
  OnStart(process);
}

void Simulation::CrashProcess(Process& process) {
  Tell([&](SimulationObserver& observer) { observer.OnCrash(now_, process.id); });
  StopProcess(process);
  if (network_) network_->DropNode(now_, process.node);
}

void Simulation::StopProcess(Process& process) {
  ++process.life;
  process.up = false;
  process.actor.reset();
  process.links.clear();
  process.link_of.clear();
  process.connected.clear();
  process.timers.clear();
  for (Process::Worker& worker : process.workers) {
    worker.jobs.clear();
    worker.runs = false;
    ++worker.token;
  }
  process.hung = false;
  for (const SimulatedEvent& event : process.waiting) {
    if (event.kind == kFrame || event.kind == kOwn) Release(event.value);
  }
  process.waiting.clear();
  Trace(process.life);
  if (network_) Schedule(now_ + kLingerFor, process, kLinger, 0);
}

bool Simulation::RunUntil(const std::function<bool()>& done, Instant limit) {
  while (!done()) {
    if (!Step(limit)) return false;
  }
  return true;
}

// One event, if there is one until `limit`.
bool Simulation::Step(Instant limit) {
  if (queue_.turns() != turns_seen_ || (network_ && network_->turns() != network_turns_seen_))
    Foresee();
  while (next_arrival_ == arrivals_.size() && network_) {
    const std::optional<Instant> due = network_->NextDue();
    if (!due || *due > limit || (!queue_.empty() && queue_.next() < *due)) break;
    arrivals_.clear();
    next_arrival_ = 0;
    network_->Advance(*due, arrivals_);
    now_ = std::max(now_, *due);
  }
  if (next_arrival_ < arrivals_.size()) {
    TakeArrival();
    return true;
  }
  if (queue_.empty() || queue_.next() > limit) return false;
  const SimulatedEvent event = queue_.Pop();
  now_ = Instant::FromNanos(event.at);
  ++events_;
  Trace(static_cast<uint64_t>(event.at));
  Run(event);
  return true;
}

void Simulation::Run(const SimulatedEvent& event) {
  if (event.kind == kScript) {
    const auto script = std::exchange(scripts_[event.value], nullptr);
    script(*this);
    return;
  }
  Process& process = At(event.process);
  if (event.kind == kFrame) {
    if (process.hung) {
      process.waiting.push_back(event);
    } else {
      OnFrame(process, event.value);
    }
    return;
  }
  if (event.life != process.life) {
    if (event.kind == kOwn) Release(event.value);
    return;
  }
  if (event.kind == kLinger) {
    network_->DropNode(now_, process.node);
    return;
  }
  if (process.hung) {
    process.waiting.push_back(event);
    return;
  }
  switch (static_cast<EventKind>(event.kind)) {
    case kTimer:
      OnTimer(process, event.value, now_);
      return;
    case kJob:
      OnJob(process, static_cast<JobQueue>(event.value % kJobQueues), event.value / kJobQueues);
      return;
    case kCourier:
      OnCourier(process, *process.links[event.value], now_);
      return;
    case kOwn:
      OnOwn(process, event.value);
      return;
    default:
      SKERRY_CHECK(false, "every kind of event is handled");
  }
}

bool Simulation::IsUp(const NodeId& id) const {
  return Known(id).up;
}
Actor* Simulation::actor(const NodeId& id) {
  return Known(id).actor.get();
}
const std::vector<std::string>& Simulation::journal(const NodeId& id) const {
  return Known(id).journal;
}
std::optional<Simulation::Stopped> Simulation::stopped(const NodeId& id) const {
  return Known(id).stopped;
}

}  // namespace skerry
