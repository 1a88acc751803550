// Handlers of the actors, and what they want done.
#include <algorithm>
#include <utility>

#include "common/check.h"
#include "sim/simulation_process.h"

namespace skerry {
namespace {

constexpr int kJournalFailedExit = 1;

}  // namespace

class Simulation::ProcessContext final : public Context {
 public:
  ProcessContext(Simulation& simulation, Process& process)
      : sim_(simulation), process_(process), effects_(*simulation.effects_) {}

  NodeId self() const override { return process_.id; }
  Instant now() const override { return process_.clock.Read(sim_.now_); }
  Rng& rng() override { return process_.rng; }
  void Send(const NodeId& to, SharedMessage message) override {
    effects_.list.emplace_back(Effects::Send{to, std::move(message)});
  }
  void Withdraw(const NodeId& to, TrafficClass traffic,
                std::function<bool(const Message&)> is_obsolete) override {
    effects_.list.emplace_back(Effects::Withdraw{to, traffic, std::move(is_obsolete)});
  }
  TimerId StartTimer(Duration after) override {
    const TimerId id = process_.next_id++;
    const Instant deadline = now() + std::max(after, Duration());
    const Instant due = std::max(sim_.now_, process_.clock.When(deadline));
    process_.timers.push_back({id, deadline, due});
    sim_.Schedule(due, process_, kTimer, id);
    return id;
  }
  void CancelTimer(TimerId id) override {
    auto& timers = process_.timers;
    const auto it =
        std::lower_bound(timers.begin(), timers.end(), id,
                         [](const auto& timer, TimerId wanted) { return timer.id < wanted; });
    if (it != timers.end() && it->id == id) timers.erase(it);
  }
  JobId Submit(Job job) override {
    const JobId id = process_.next_id++;
    effects_.list.emplace_back(Effects::Submit{id, std::move(job)});
    return id;
  }
  void Persist(std::string record) override { effects_.records.push_back(std::move(record)); }
  void Event(const std::string& kind, const std::string& json_fields) override {
    effects_.list.emplace_back(Effects::Event{kind, json_fields});
  }
  void ConnectPeer(const NodeId& peer, const std::string& endpoint) override {
    const bool dials = !endpoint.empty();
    if (dials || sim_.options_.known_to_all)
      effects_.list.emplace_back(Effects::Connect{peer, dials});
  }
  void DisconnectPeer(const NodeId& peer) override {
    effects_.list.emplace_back(Effects::Disconnect{peer});
  }
  void Stop(int exit_code, const std::string& reason) override {
    effects_.list.emplace_back(Effects::Stop{exit_code, reason});
  }

 private:
  Simulation& sim_;
  Process& process_;
  Effects& effects_;
};

template <typename Handler>
void Simulation::Handle(Process& process, Handler&& handler) {
  SKERRY_CHECK(!effects_->in_handler, "handlers do not nest");
  ProcessContext context(*this, process);
  effects_->in_handler = true;
  handler(static_cast<Context&>(context));
  effects_->in_handler = false;
  CarryOut(process);
}

void Simulation::OnStart(Process& process) {
  Handle(process, [&](Context& context) { process.actor->OnStart(context); });
}

void Simulation::OnTimer(Process& process, TimerId id, Instant at) {
  auto& timers = process.timers;
  const auto it =
      std::lower_bound(timers.begin(), timers.end(), id,
                       [](const auto& timer, TimerId wanted) { return timer.id < wanted; });
  // Cancelled, or its clock was set since: then another event is on its way. One that waited while
  // the process hung is late.
  if (it == timers.end() || it->id != id || it->due > at) return;
  timers.erase(it);
  Trace(id);
  Handle(process, [&](Context& context) { process.actor->OnTimer(context, id); });
}

void Simulation::OnOwn(Process& process, size_t slot) {
  const SharedMessage message = std::move(in_flight_[slot].frame.message);
  Release(slot);
  OnMessage(process, process.id, *message);
}

void Simulation::OnMessage(Process& process, const NodeId& from, const Message& message) {
  Trace(message.index() << 48 ^ static_cast<uint64_t>(WireSize(message)));
  Tell([&](SimulationObserver& o) { o.OnDelivered(now_, from, process.id, message); });
  Handle(process, [&](Context& context) { process.actor->OnMessage(context, from, message); });
}

void Simulation::OnPeerRestarted(Process& process, const NodeId& peer) {
  Handle(process, [&](Context& context) { process.actor->OnPeerRestarted(context, peer); });
}

void Simulation::Signal(const NodeId& id, const std::function<void(Actor&, Context&)>& handler) {
  Process& process = Known(id);
  if (!process.up || process.hung) return;
  Fault(process, "signal", 0);
  Handle(process, [&](Context& context) { handler(*process.actor, context); });
}

// Each works on one job after another, in order of submission.
void Simulation::StartJob(Process& process, JobQueue queue) {
  const auto which = static_cast<uint64_t>(queue);
  Process::Worker& worker = process.workers[which];
  if (worker.runs || process.hung || worker.jobs.empty()) return;
  worker.runs = true;
  worker.due = now_ + worker.left;
  Schedule(worker.due, process, kJob, ++worker.token * kJobQueues + which);
}

// Observers hear of the device.
void Simulation::OnJob(Process& process, JobQueue queue, uint64_t token) {
  Process::Worker& worker = process.workers[static_cast<size_t>(queue)];
  if (token != worker.token) return;
  Process::DeviceJob done = std::move(worker.jobs.front());
  worker.jobs.erase(worker.jobs.begin());
  worker.runs = false;
  if (done.job.run) done.job.run();
  Trace(done.id);
  if (queue == JobQueue::kDevice)
    Tell([&](SimulationObserver& observer) { observer.OnJobEnd(now_, process.id, done.id); });
  if (!worker.jobs.empty()) BeginJob(process, queue);
  Handle(process, [&](Context& context) { process.actor->OnJobDone(context, done.id); });
}

void Simulation::BeginJob(Process& process, JobQueue queue) {
  Process::Worker& worker = process.workers[static_cast<size_t>(queue)];
  const Process::DeviceJob& next = worker.jobs.front();
  worker.left = process.slowness == 1
                    ? next.job.modelled
                    : Duration::Seconds(next.job.modelled.seconds() * process.slowness);
  if (queue == JobQueue::kDevice)
    Tell([&](SimulationObserver& o) { o.OnJobStart(now_, process.id, next.id, next.job.name); });
  StartJob(process, queue);
}

// All records of a handler become durable together, or none.
bool Simulation::Persist(Process& process) {
  std::vector<std::string> records = std::exchange(effects_->records, {});
  if (process.disk_full) {
    process.stopped = Stopped{kJournalFailedExit, "journal: no space left on device"};
    Tell([&](SimulationObserver& o) {
      o.OnStop(now_, process.id, kJournalFailedExit, process.stopped->reason);
    });
    StopProcess(process);
    return false;
  }
  const size_t before = process.journal.size();
  for (std::string& record : records) {
    Trace(HashName(record));
    Tell([&](SimulationObserver& observer) { observer.OnPersist(now_, process.id, record); });
    process.journal.push_back(std::move(record));
  }
  if (!options_.crash_after_persist) return true;
  bool crashes = false;
  for (size_t i = before; i < before + records.size(); ++i)
    crashes |= options_.crash_after_persist(*this, process.id, static_cast<int64_t>(i) + 1);
  if (crashes) CrashProcess(process);
  return !crashes;
}

void Simulation::CarryOut(Process& process) {
  if (!effects_->records.empty() && !Persist(process)) {
    effects_->list.clear();
    return;
  }
  std::optional<Stopped> stop;
  for (Effects::Effect& effect : effects_->list) {
    if (auto* send = std::get_if<Effects::Send>(&effect)) {
      SendMessage(process, send->to, std::move(send->message));
    } else if (auto* withdraw = std::get_if<Effects::Withdraw>(&effect)) {
      Withdraw(process, withdraw->to, withdraw->traffic, withdraw->is_obsolete);
    } else if (auto* submit = std::get_if<Effects::Submit>(&effect)) {
      const JobQueue queue = submit->job.queue;
      auto& jobs = process.workers[static_cast<size_t>(queue)].jobs;
      jobs.push_back({submit->id, std::move(submit->job)});
      if (jobs.size() == 1) BeginJob(process, queue);
    } else if (auto* event = std::get_if<Effects::Event>(&effect)) {
      if (options_.event_sink)
        options_.event_sink(now_, process.id, event->kind, event->json_fields);
      Tell([&](SimulationObserver& o) {
        o.OnEvent(now_, process.id, event->kind, event->json_fields);
      });
    } else if (const auto* connect = std::get_if<Effects::Connect>(&effect)) {
      const Process& peer = At(IndexOf(connect->peer));
      if (options_.known_to_all) process.connected.insert(peer.index);
      if (network_ && connect->dials && peer.up && &peer != &process)
        network_->Connect(now_, process.node, peer.node);
    } else if (const auto* disconnect = std::get_if<Effects::Disconnect>(&effect)) {
      Forget(process, disconnect->peer);
    } else if (auto* wanted = std::get_if<Effects::Stop>(&effect); wanted != nullptr && !stop) {
      stop = Stopped{wanted->exit_code, std::move(wanted->reason)};
    }
  }
  effects_->list.clear();
  if (!stop) return;
  process.stopped = std::move(stop);
  Tell([&](SimulationObserver& o) {
    o.OnStop(now_, process.id, process.stopped->exit_code, process.stopped->reason);
  });
  StopProcess(process);
}

}  // namespace skerry
