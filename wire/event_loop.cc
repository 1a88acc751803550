#include "wire/event_loop.h"

#include <sodium.h>

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "wire/event_loop_core.h"

namespace skerry {
namespace {

constexpr Duration kSlowHandler = Duration::Millis(5);
constexpr Duration kRetryAfter = Duration::Millis(2);
constexpr Duration kDrainMax = Duration::Seconds(1);
constexpr int kTimersAtOnce = 256;
constexpr size_t kRecordsAtOnce = 256;
constexpr std::chrono::milliseconds kJournalRetry{500};
constexpr Duration kTick = Duration::Seconds(1);

uint64_t DrawIncarnation() {
  uint64_t random = 0;
  randombytes_buf(&random, sizeof random);
  return ProcessBits(random);
}

// As JSON text, of what we say ourselves.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' || c == '\\' || c < ' ' ? ' ' : c;
  return quoted + "\"";
}

}  // namespace

EventLoop::EventLoop(std::unique_ptr<Core> core) : core_(std::move(core)) {}
EventLoop::~EventLoop() = default;

absl::StatusOr<std::unique_ptr<EventLoop>> EventLoop::Open(EventLoopOptions options) {
  SKERRY_ASSIGN_OR_RETURN(auto core, Core::Open(std::move(options)));
  return std::unique_ptr<EventLoop>(new EventLoop(std::move(core)));
}

const std::vector<std::string>& EventLoop::endpoints() const {
  return core_->endpoints();
}
uint64_t EventLoop::incarnation() const {
  return core_->incarnation();
}
void EventLoop::Lead(int64_t epoch) {
  core_->Lead(epoch);
}
void EventLoop::SetCoordinatorEndpoints(const std::vector<std::string>& endpoints) {
  core_->SetCoordinatorEndpoints(endpoints);
}
absl::StatusOr<int> EventLoop::Run(Actor& actor) {
  return core_->Run(actor);
}
const std::string& EventLoop::stop_reason() const {
  return core_->stop_reason();
}
void EventLoop::Post(std::function<void(Context&)> function) {
  core_->Post(std::move(function));
}
std::map<NodeId, NodeId> EventLoop::Relayed() const {
  return core_->Relayed();
}
std::set<NodeId> EventLoop::Punched() const {
  return core_->Punched();
}
std::optional<LinkReading> EventLoop::Shown(const NodeId& peer) const {
  return core_->Shown(peer);
}
void EventLoop::SetLimits(double up_bytes_per_s, double down_bytes_per_s) {
  core_->SetLimits(up_bytes_per_s, down_bytes_per_s);
}
TransportCounters EventLoop::counters() const {
  return core_->counters();
}

EventLoop::Core::Core(EventLoopOptions options, uint64_t incarnation,
                      std::unique_ptr<Transport> transport, Instant start)
    : options_(std::move(options)),
      incarnation_(incarnation),
      transport_(std::move(transport)),
      courier_({options_.run, incarnation}),
      rng_(options_.seed, "event loop"),
      start_(start) {
  if (options_.shape) shaper_.emplace(options_.shape->up_bytes_per_s);
}

absl::StatusOr<std::unique_ptr<EventLoop::Core>> EventLoop::Core::Open(EventLoopOptions options) {
  if (options.shape && !options.shape->HasRegion(options.region))
    return InvalidArgument("the network shape has no region '%s'", options.region);
  const bool admit_any = options.role == HostRole::kCoordinator;
  const Instant start = MonotonicNow();
  const auto clock = [start] { return Instant() + (MonotonicNow() - start); };
  SKERRY_ASSIGN_OR_RETURN(auto transport,
                          Transport::Open({options.identity, options.run, options.bind_endpoint,
                                           admit_any, admit_any || options.relays, clock}));
  const auto coordinator = options.coordinator;
  std::unique_ptr<Core> core(
      new Core(std::move(options), DrawIncarnation(), std::move(transport), start));
  if (coordinator) {
    auto endpoints = SplitEndpoints(coordinator->endpoint);
    if (endpoints.empty()) return InvalidArgument("the coordinator has no address");
    core->route_.emplace(std::move(endpoints), core->Clock());
    SKERRY_RETURN_IF_ERROR(core->transport_->Dial(coordinator->id, core->route_->current()));
    core->connected_.insert(coordinator->id);
    core->transport_->SetRelays({}, coordinator->id);
  }
  return core;
}

void EventLoop::Core::Lead(int64_t epoch) {
  SKERRY_CHECK(actor_ == nullptr && epoch > 0, "a loop leads from its beginning, or not at all");
  incarnation_ = LedIncarnation(static_cast<uint64_t>(epoch), incarnation_);
  courier_.SetIncarnation(incarnation_);
}

absl::StatusOr<int> EventLoop::Core::Run(Actor& actor) {
  SKERRY_CHECK(actor_ == nullptr, "a loop runs once");
  actor_ = &actor;
  if (options_.handle_signals) interrupts_ = std::make_unique<InterruptWatch>(bell_);
  Handle([&] { actor.OnStart(*this); });
  while (!ended_) Turn();
  {
    const std::lock_guard lock(posted_mutex_);
    closed_ = true;
    posted_.clear();
  }
  if (failure_.ok()) Drain();
  for (auto& queue : queues_) queue.reset();
  interrupts_.reset();
  if (!failure_.ok()) return failure_;
  return exit_code_;
}

void EventLoop::Core::Post(std::function<void(Context&)> function) {
  const std::lock_guard lock(posted_mutex_);
  if (closed_) return;
  posted_.push_back(std::move(function));
  bell_.Ring();
}

TransportCounters EventLoop::Core::counters() const {
  TransportCounters all = transport_->counters();
  all.refused_malformed += counters_.refused_malformed;
  all.refused_unadmitted += counters_.refused_unadmitted;
  all.refused_by_courier = courier_.refused();
  all.slow_handlers = counters_.slow_handlers;
  all.slowest_handler = counters_.slowest_handler;
  return all;
}

void EventLoop::Core::Turn() {
  Wait();
  if (!Leads()) return;
  OnInterrupts();
  OnTick();
  OnSilentCoordinator();
  OnPosted();
  OnTimers();
  OnJobs();
  gathers_ = true;
  OnOwnMessages();
  transport_->Receive([this](Transport::Received received) { OnFrame(std::move(received)); });
  gathers_ = false;
  CarryOut();
  for (const NodeId& peer : transport_->TakeRerouted()) RepeatLost(peer, false);
  RepeatDue();
  SendDue();
  OnReached();
}

void EventLoop::Core::Wait() {
  std::vector<zmq::pollitem_t> items = {{nullptr, bell_.fd(), ZMQ_POLLIN, 0},
                                        {nullptr, alarm_.fd(), ZMQ_POLLIN, 0}};
  transport_->AppendPollItems(items);
  const auto deadline = NextDeadline();
  std::chrono::milliseconds timeout{-1};
  if (!own_messages_.empty() || (deadline && *deadline <= Clock())) {
    timeout = std::chrono::milliseconds{0};
  } else if (deadline) {
    alarm_.Set(start_ + (*deadline - Instant()));
  } else {
    alarm_.Off();
  }
  try {
    zmq::poll(items, timeout);
  } catch (const zmq::error_t& e) {
    SKERRY_CHECK(e.num() == EINTR, "poll of our own sockets");
  }
  if (items[0].revents != 0) bell_.Silence();
  now_ = Clock();
}

std::optional<Instant> EventLoop::Core::NextDeadline() {
  std::optional<Instant> deadline = interrupt_deadline_;
  const auto sooner = [&](std::optional<Instant> other) {
    if (other && (!deadline || *other < *deadline)) deadline = other;
  };
  if (!timers_.empty()) sooner(timers_.begin()->first);
  sooner(courier_.NextDue());
  sooner(transport_->NextDue());
  if (shaper_) sooner(shaper_->NextDue());
  if (retry_soon_) sooner(now_ + kRetryAfter);
  sooner(tick_);
  if (options_.leads) sooner(now_ + kTick);
  if (route_) sooner(route_->NextDue());
  return deadline;
}

void EventLoop::Core::OnInterrupts() {
  if (!interrupts_ || !interrupts_->Interrupted() || ended_) return;
  if (!interrupt_deadline_) {
    interrupt_deadline_ = Clock() + options_.interrupt_grace;
    if (options_.on_interrupt) {
      Handle([&] { options_.on_interrupt(*this); });
    } else {
      Do(StopEffect{kInterruptedExit, "interrupted"});
    }
  } else if (*interrupt_deadline_ <= now_) {
    Do(StopEffect{kInterruptedExit, "interrupted, and not done in time"});
  }
}

void EventLoop::Core::OnPosted() {
  std::vector<std::function<void(Context&)>> posted;
  {
    const std::lock_guard lock(posted_mutex_);
    posted.swap(posted_);
  }
  for (const auto& function : posted) Handle([&] { function(*this); });
}

void EventLoop::Core::OnTimers() {
  for (int i = 0; i < kTimersAtOnce; ++i) {
    if (timers_.empty() || timers_.begin()->first > now_) return;
    const TimerId id = timers_.begin()->second;
    timers_.erase(timers_.begin());
    timer_due_.erase(id);
    Handle([&] { actor_->OnTimer(*this, id); });
  }
}

void EventLoop::Core::OnJobs() {
  for (const auto& queue : queues_) {
    if (!queue) continue;
    for (const JobId id : queue->TakeDone()) Handle([&] { actor_->OnJobDone(*this, id); });
  }
}

void EventLoop::Core::OnOwnMessages() {
  std::deque<SharedMessage> messages;
  messages.swap(own_messages_);
  for (const SharedMessage& message : messages)
    Handle([&] { actor_->OnMessage(*this, self(), *message); });
}

// What came of dialling back is news from oneself.
void EventLoop::Core::OnReached() {
  for (Reachability& found : transport_->TakeReached())
    own_messages_.push_back(Share(std::move(found)));
}

void EventLoop::Core::OnSilentCoordinator() {
  if (!route_) return;
  const NodeId coordinator = options_.coordinator->id;
  const auto next = route_->Next(now_, courier_.Unacknowledged(coordinator) > 0);
  if (!next) return;
  const absl::Status dialled = transport_->Dial(coordinator, *next);
  RepeatLost(coordinator, true);  // what waits went the other way
  Do(EventEffect{dialled.ok() ? "coordinator_silent" : "unreachable",
                 "{\"dialling\":" + Quoted(*next) + "}"});
}

void EventLoop::Core::OnTick() {
  if (!options_.on_tick || (tick_ && *tick_ > now_)) return;
  tick_ = now_ + kTick;
  Handle([&] { options_.on_tick(*this); });
}

void EventLoop::Core::Handle(const std::function<void()>& handler) {
  if (ended_) return;
  const Instant before = Clock();
  now_ = before;
  handler();
  const Duration took = Clock() - before;
  if (took > kSlowHandler) ++counters_.slow_handlers;
  counters_.slowest_handler = std::max(counters_.slowest_handler, took);
  if (gathers_ && !records_.empty() && records_.size() < kRecordsAtOnce) return;
  CarryOut();
}

void EventLoop::Core::CarryOut() {
  if (!records_.empty()) {
    SKERRY_CHECK(options_.journal != nullptr, "an actor that persists needs a journal");
    const auto records = std::exchange(records_, {});
    const absl::Status durable = StandStill("journal", [&] { return options_.journal(records); });
    if (!durable.ok()) {
      effects_.clear();
      Fail(Annotate(durable, "journal"));
      return;
    }
  }
  if (!effects_.empty() && !Leads()) return;
  for (Effect& effect : std::exchange(effects_, {})) {
    if (!failure_.ok()) return;
    std::visit([this](auto& e) { Do(std::move(e)); }, effect);
  }
}

// A full disk is waited for: peers see a coordinator that hangs, which they can bear, and nobody
// hears of what is not durable.
absl::Status EventLoop::Core::StandStill(const std::string& kind,
                                         const std::function<absl::Status()>& ask) {
  absl::Status done = ask();
  if (!absl::IsResourceExhausted(done)) return done;
  const Instant since = Clock();
  Do(EventEffect{kind + "_waits", "{\"why\":" + Quoted(ErrorText(done)) + "}"});
  while (absl::IsResourceExhausted(done) && !(interrupts_ && interrupts_->Interrupted())) {
    zmq::pollitem_t bell{nullptr, bell_.fd(), ZMQ_POLLIN, 0};
    try {
      zmq::poll(&bell, 1, kJournalRetry);
    } catch (const zmq::error_t& e) {
      SKERRY_CHECK(e.num() == EINTR, "poll of our own bell");
    }
    bell_.Silence();
    done = ask();
  }
  bell_.Ring();  // for jobs and posts that were done meanwhile
  if (!done.ok()) return done;
  Do(EventEffect{kind + "_goes_on",
                 absl::StrFormat("{\"waited_s\":%.1f}", (Clock() - since).seconds())});
  now_ = Clock();
  return done;
}

bool EventLoop::Core::Leads() {
  if (!options_.leads || ended_) return true;
  const absl::Status leads = StandStill("lease", options_.leads);
  if (leads.ok()) return true;
  effects_.clear();
  Fail(leads);
  return false;
}

void EventLoop::Core::Fail(const absl::Status& status) {
  if (failure_.ok()) failure_ = status;
  if (stop_reason_.empty()) stop_reason_ = ErrorText(status);
  ended_ = true;
}

// What is on its way gets a moment to leave: a Leave, a Shutdown, the last report.
void EventLoop::Core::Drain() {
  const Instant end = Clock() + kDrainMax;
  SendDue();
  while ((transport_->HasUnsent() || (shaper_ && shaper_->Waiting() > 0)) && Clock() < end) {
    timers_.clear();
    own_messages_.clear();
    timers_.insert({end, 0});
    interrupt_deadline_.reset();
    Wait();
    transport_->Receive([](const Transport::Received&) {});
    std::vector<Courier::Outgoing> out;
    courier_.Tick(now_, out);
    SendDue();
  }
}

}  // namespace skerry
