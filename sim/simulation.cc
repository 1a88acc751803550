#include "sim/simulation.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "common/check.h"

namespace skerry {

struct Simulation::Process {
  NodeId id;
  ActorFactory factory;
  std::vector<std::string> journal;
  uint64_t life = 0;  // counts starts; events of earlier lives are void
  bool up = false;
  std::optional<Stopped> stopped;
  std::unique_ptr<Actor> actor;
  std::unique_ptr<Courier> courier;
  Rng rng{0};
  std::set<TimerId> timers;
  uint64_t next_id = 1;
  Instant device_free;
  std::optional<Instant> courier_due;
  bool in_handler = false;
};

// Records what a handler wants; Simulation::Handle carries it out.
class Simulation::ProcessContext final : public Context {
 public:
  ProcessContext(Simulation& simulation, Process& process) : sim_(simulation), process_(process) {}

  NodeId self() const override { return process_.id; }
  Instant now() const override { return sim_.now_; }
  Rng& rng() override { return process_.rng; }
  void Send(const NodeId& to, Message message) override {
    sends_.emplace_back(to, std::move(message));
  }
  TimerId StartTimer(Duration after) override {
    const TimerId id = process_.next_id++;
    process_.timers.insert(id);
    sim_.Schedule(sim_.now_ + after, process_.id,
                  [&sim = sim_, &process = process_, id, life = process_.life] {
                    if (process.life != life || process.timers.erase(id) == 0) return;
                    sim.Trace(id);
                    sim.Handle(process, [&](Context& c) { process.actor->OnTimer(c, id); });
                  });
    return id;
  }
  void CancelTimer(TimerId id) override { process_.timers.erase(id); }
  JobId Submit(Job job) override {
    const JobId id = process_.next_id++;
    process_.device_free = std::max(process_.device_free, sim_.now_) + job.modelled;
    sim_.Schedule(
        process_.device_free, process_.id,
        [&sim = sim_, &process = process_, id, life = process_.life, run = std::move(job.run)] {
          if (process.life != life || !process.up) return;
          if (run) run();
          sim.Trace(id);
          sim.Handle(process, [&](Context& c) { process.actor->OnJobDone(c, id); });
        });
    return id;
  }
  void Persist(std::string record) override { process_.journal.push_back(std::move(record)); }
  void Event(const std::string& kind, const std::string& json) override {
    if (sim_.options_.event_sink) sim_.options_.event_sink(sim_.now_, process_.id, kind, json);
  }
  void ConnectPeer(const NodeId&, const std::string&) override {}
  void DisconnectPeer(const NodeId& peer) override { process_.courier->Forget(peer); }
  void Stop(int exit_code, const std::string& reason) override {
    process_.stopped = Stopped{exit_code, reason};
  }

  std::vector<std::pair<NodeId, Message>> sends_;

 private:
  Simulation& sim_;
  Process& process_;
};

Simulation::Simulation(SimulationOptions options)
    : options_(std::move(options)), network_rng_(options_.seed, "network") {
  SKERRY_CHECK(options_.link != nullptr);
}
Simulation::~Simulation() = default;

void Simulation::Schedule(Instant at, const NodeId& process, std::function<void()> run) {
  queue_.push({at, process, next_sequence_++, std::move(run)});
}

void Simulation::AddProcess(const NodeId& id, ActorFactory factory, Instant start) {
  auto process = std::make_unique<Process>();
  process->id = id;
  process->factory = std::move(factory);
  SKERRY_CHECK(processes_.emplace(id, std::move(process)).second, "a process is added once");
  StartAt(start, id);
}

void Simulation::StartAt(Instant when, const NodeId& id) {
  Schedule(when, id, [this, id] {
    Process& process = *processes_.at(id);
    if (!process.up) StartProcess(process);
  });
}

void Simulation::CrashAt(Instant when, const NodeId& id) {
  Schedule(when, id, [this, id] {
    Process& process = *processes_.at(id);
    if (process.up) StopProcess(process);
  });
}

void Simulation::At(Instant when, std::function<void(Simulation&)> action) {
  Schedule(when, NodeId{}, [this, action = std::move(action)] { action(*this); });
}

void Simulation::StartProcess(Process& process) {
  ++process.life;
  process.up = true;
  process.stopped.reset();
  process.timers.clear();
  process.device_free = now_;
  process.courier_due.reset();
  process.rng = Rng(options_.seed, process.id.Hex(), process.life);
  process.courier = std::make_unique<Courier>(CourierOptions{
      options_.run, process.rng.Next() | 1, options_.repeat_after, options_.repeat_after * 8});
  process.actor = process.factory(process.journal);
  Trace(process.life);
  Handle(process, [&](Context& context) { process.actor->OnStart(context); });
}

void Simulation::StopProcess(Process& process) {
  ++process.life;
  process.up = false;
  process.actor.reset();
  process.courier.reset();
  Trace(process.life);
}

void Simulation::Handle(Process& process, const std::function<void(Context&)>& handler) {
  SKERRY_CHECK(!process.in_handler, "handlers do not nest");
  ProcessContext context(*this, process);
  process.in_handler = true;
  handler(context);
  process.in_handler = false;
  std::vector<Courier::Outgoing> frames;
  for (auto& [to, message] : context.sends_) {
    process.courier->Send(now_, to, std::move(message), frames);
  }
  Transmit(process.id, std::move(frames));
  if (process.stopped) {
    StopProcess(process);
  } else {
    ArmCourier(process);
  }
}

void Simulation::Transmit(const NodeId& from, std::vector<Courier::Outgoing> frames) {
  for (Courier::Outgoing& outgoing : frames) {
    const SimLink link = options_.link(from, outgoing.to);
    const int64_t bytes = outgoing.frame.message ? WireSize(*outgoing.frame.message) : 100;
    Instant& free = link_free_[{from, outgoing.to}];
    free = std::max(free, now_) + Duration::Seconds(static_cast<double>(bytes) / link.bytes_per_s);
    const int copies = network_rng_.Uniform() < link.repetition ? 2 : 1;
    for (int copy = 0; copy < copies; ++copy) {
      if (network_rng_.Uniform() < link.loss) {
        ++frames_lost_;
        continue;
      }
      const Instant arrival =
          free + link.one_way + Duration::Seconds(network_rng_.Uniform() * link.jitter.seconds());
      Schedule(arrival, outgoing.to, [this, from, to = outgoing.to, frame = outgoing.frame] {
        const auto it = processes_.find(to);
        if (it != processes_.end() && it->second->up) Deliver(*it->second, from, frame);
      });
    }
  }
}

void Simulation::Deliver(Process& process, const NodeId& from, const Frame& frame) {
  Trace(frame.header.sequence ^ HashName(from.Hex()));
  std::vector<Courier::Outgoing> frames;
  Courier::Delivered delivered = process.courier->OnFrame(now_, from, frame, frames);
  Transmit(process.id, std::move(frames));
  const uint64_t life = process.life;
  if (delivered.restarted) {
    Handle(process, [&](Context& c) { process.actor->OnPeerRestarted(c, from); });
  }
  for (const Message& message : delivered.messages) {
    if (process.life != life || !process.up) return;
    Trace(HashName(Describe(message)));
    Handle(process, [&](Context& c) { process.actor->OnMessage(c, from, message); });
  }
  if (process.life == life) ArmCourier(process);
}

void Simulation::ArmCourier(Process& process) {
  const auto due = process.courier->NextDue();
  if (!due || (process.courier_due && *process.courier_due <= *due)) return;
  process.courier_due = *due;
  Schedule(std::max(*due, now_), process.id, [this, &process, life = process.life, at = *due] {
    if (process.life != life || process.courier_due != at) return;
    process.courier_due.reset();
    std::vector<Courier::Outgoing> frames;
    process.courier->Tick(now_, frames);
    Transmit(process.id, std::move(frames));
    ArmCourier(process);
  });
}

bool Simulation::RunUntil(const std::function<bool()>& done, Instant limit) {
  while (!queue_.empty() && !done()) {
    if (queue_.top().at > limit) return false;
    Event event = queue_.top();
    queue_.pop();
    now_ = event.at;
    ++events_;
    Trace(static_cast<uint64_t>(now_.nanos()));
    event.run();
  }
  return done();
}

bool Simulation::IsUp(const NodeId& id) const {
  return processes_.at(id)->up;
}
Actor* Simulation::actor(const NodeId& id) {
  return processes_.at(id)->actor.get();
}
const std::vector<std::string>& Simulation::journal(const NodeId& id) const {
  return processes_.at(id)->journal;
}
std::optional<Simulation::Stopped> Simulation::stopped(const NodeId& id) const {
  return processes_.at(id)->stopped;
}

}  // namespace skerry
