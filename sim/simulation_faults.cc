// What goes wrong with processes and their machines. Every fault enters the trace.
#include <algorithm>
#include <utility>

#include "common/check.h"
#include "sim/simulation_process.h"

namespace skerry {

void Simulation::Fault(const Process& process, const std::string& what, uint64_t value) {
  Trace(HashName(what));
  Trace(static_cast<uint64_t>(process.index));
  Trace(value);
  Tell([&](SimulationObserver& observer) { observer.OnFault(now_, process.id, what); });
}

void Simulation::Hang(const NodeId& id, Instant from, Instant to) {
  scripts_.push_back(
      [id, to](Simulation& simulation) { simulation.BeginHang(simulation.Known(id), to); });
  Schedule(from, Known(id), kScript, scripts_.size() - 1);
}

void Simulation::BeginHang(Process& process, Instant until) {
  if (!process.up || until <= now_) return;
  Fault(process, "hang", static_cast<uint64_t>(until.nanos()));
  process.hung_until = process.hung ? std::max(process.hung_until, until) : until;
  process.hung = true;
  for (Process::Worker& worker : process.workers) {
    if (!worker.runs) continue;
    worker.left = worker.due - now_;
    worker.runs = false;
    ++worker.token;
  }
  scripts_.push_back([index = process.index, life = process.life](Simulation& simulation) {
    Process& hung = simulation.At(index);
    if (hung.life == life && hung.hung && hung.hung_until <= simulation.now_)
      simulation.EndHang(hung);
  });
  Schedule(until, process, kScript, scripts_.size() - 1);
}

void Simulation::EndHang(Process& process) {
  Fault(process, "hang ends", 0);
  process.hung = false;
  for (SimulatedEvent event : std::exchange(process.waiting, {})) {
    event.at = now_.nanos();
    queue_.Push(event);
  }
  for (const JobQueue queue : {JobQueue::kDevice, JobQueue::kBeside}) StartJob(process, queue);
}

void Simulation::SlowDevice(const NodeId& id, double factor) {
  SKERRY_CHECK(factor > 0);
  Process& process = Known(id);
  Fault(process, "slow", static_cast<uint64_t>(factor * 1e6));
  const double change = factor / std::exchange(process.slowness, factor);
  for (const JobQueue queue : {JobQueue::kDevice, JobQueue::kBeside}) {
    Process::Worker& worker = process.workers[static_cast<size_t>(queue)];
    if (worker.jobs.empty()) continue;
    if (worker.runs) worker.left = worker.due - now_;
    worker.left = Duration::Seconds(worker.left.seconds() * change);
    worker.runs = false;
    ++worker.token;
    StartJob(process, queue);
  }
}

void Simulation::DriftClock(const NodeId& id, double rate) {
  SKERRY_CHECK(rate > 0);
  Process& process = Known(id);
  Fault(process, "clock", static_cast<uint64_t>(rate * 1e9));
  process.clock.SetRate(now_, rate);
  FollowClock(process);
}

void Simulation::JumpClock(const NodeId& id, Duration by) {
  Process& process = Known(id);
  Fault(process, "clock", static_cast<uint64_t>(by.nanos()));
  process.clock.Jump(now_, by);
  FollowClock(process);
}

// Timers and repetitions are due when the clock reads their time, which is another time now.
void Simulation::FollowClock(Process& process) {
  for (Process::Timer& timer : process.timers) {
    timer.due = std::max(now_, process.clock.When(timer.deadline));
    Schedule(timer.due, process, kTimer, timer.id);
  }
  for (const auto& link : process.links) {
    link->armed.reset();
    ArmCourier(process, *link);
  }
}

void Simulation::FillDisk(const NodeId& id, bool full) {
  Process& process = Known(id);
  Fault(process, "disk full", full ? 1 : 0);
  process.disk_full = full;
}

bool Simulation::IsDiskFull(const NodeId& id) const {
  return Known(id).disk_full;
}

int64_t Simulation::LongestQueue(const NodeId& id) const {
  size_t longest = 0;
  for (const auto& link : Known(id).links)
    longest = std::max(longest, link->session.unacknowledged());
  return static_cast<int64_t>(longest);
}

void Simulation::Cut(const NodeId& from, const NodeId& to, bool cut) {
  SKERRY_CHECK(network_ != nullptr, "cuts want SimulationOptions::network");
  const Process& sender = Known(from);
  Fault(sender, "cut", static_cast<uint64_t>(Known(to).index) << 1 | (cut ? 1 : 0));
  network_->Cut(now_, sender.node, Known(to).node, cut);
}

void Simulation::Bridge(const NodeId& a, const NodeId& b, bool bridged) {
  SKERRY_CHECK(network_ != nullptr, "relays want SimulationOptions::network");
  network_->Bridge(now_, Known(a).node, Known(b).node, bridged);
}

void Simulation::CutRegion(int32_t from_region, int32_t to_region, bool cut) {
  SKERRY_CHECK(network_ != nullptr, "cuts want SimulationOptions::network");
  Trace(HashName("cut region"));
  Trace(static_cast<uint64_t>(from_region) << 32 | static_cast<uint64_t>(to_region) << 1 |
        (cut ? 1 : 0));
  network_->CutRegion(now_, from_region, to_region, cut);
}

}  // namespace skerry
