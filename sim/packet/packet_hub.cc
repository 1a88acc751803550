#include "sim/packet/packet_hub.h"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace skerry {
namespace {

constexpr int kPriority = 20;
constexpr unsigned long kTimerSlackNanos = 1000;
constexpr Duration kSpin = Duration::Micros(5);
constexpr Duration kOversleepMax = Duration::Micros(150);  // what may be spent on turning idly
constexpr int64_t kOversleepMemory = 16;                   // sleeps
constexpr int kReadsPerTurn = 8;  // of one port, so that what is due does not wait

Instant Now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Instant::FromNanos(int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec);
}

double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

PacketCounters operator-(const PacketCounters& a, const PacketCounters& b) {
  return {a.segments - b.segments,   a.lost - b.lost,         a.dropped - b.dropped,
          a.delivered - b.delivered, a.not_ours - b.not_ours, a.bytes - b.bytes};
}

}  // namespace

absl::Status HubReport::Verdict() const {
  SKERRY_RETURN_IF_ERROR(lateness.Verdict());
  constexpr double kUnwantedLossMax = 1e-4;
  const int64_t gone = refused + overruns;
  if (static_cast<double>(gone) <= kUnwantedLossMax * static_cast<double>(packets.segments))
    return absl::OkStatus();
  return FailedPrecondition(
      "%d of %d packets went missing between kernel and shaper, which no line of the scenario "
      "dropped (%d refused, %d not read in time); there is no report. Raise net.core.rmem_max and "
      "net.core.netdev_max_backlog, start as root, use lower rates, or use --shaper inprocess",
      gone, packets.segments, refused, overruns);
}

absl::StatusOr<std::unique_ptr<PacketHub>> PacketHub::Start(PacketPlan plan, uint64_t seed,
                                                            std::vector<PacketPort> ports) {
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) return Unavailable("eventfd: %s", std::strerror(errno));
  std::unique_ptr<PacketHub> hub(new PacketHub(std::move(plan), seed, std::move(ports), wake));
  hub->thread_ = std::thread([raw = hub.get()] { raw->Loop(); });
  return hub;
}

PacketHub::PacketHub(PacketPlan plan, uint64_t seed, std::vector<PacketPort> ports, int wake)
    : router_(std::move(plan), seed),
      ports_(std::move(ports)),
      wake_(wake),
      cut_(ports_.size() * ports_.size()) {
  ends_.push_back({wake_, POLLIN, 0});
  for (const PacketPort& port : ports_) ends_.push_back({port.fd(), POLLIN, 0});
}

PacketHub::~PacketHub() {
  stop_ = true;
  WakeUp();
  if (thread_.joinable()) thread_.join();
  close(wake_);
}

void PacketHub::WakeUp() {
  const uint64_t one = 1;
  SKERRY_CHECK(write(wake_, &one, sizeof one) == sizeof one);
}

void PacketHub::SetCut(int32_t from, int32_t to, bool cut) {
  const size_t pair = static_cast<size_t>(from) * ports_.size() + static_cast<size_t>(to);
  if (cut_[pair].exchange(cut) != cut) cuts_ += cut ? 1 : -1;
}

bool PacketHub::IsCut(int32_t from, const Packet& packet) const {
  if (cuts_ == 0) return false;
  const auto shape = ShapeOf(packet);
  const int32_t to =
      shape ? PacketNode(shape->destination, static_cast<int32_t>(ports_.size())) : -1;
  return to >= 0 && cut_[static_cast<size_t>(from) * ports_.size() + static_cast<size_t>(to)];
}

HubReport PacketHub::TakeReport() {
  std::promise<HubReport> answer;
  asked_ = &answer;
  WakeUp();
  return answer.get_future().get();
}

void PacketHub::Answer() {
  uint64_t wakes = 0;
  if (read(wake_, &wakes, sizeof wakes) != sizeof wakes) return;
  std::promise<HubReport>* const asked = asked_.exchange(nullptr);
  if (asked == nullptr) return;
  for (PacketPort& port : ports_) report_.overruns += port.TakeOverruns();
  const double used = ThreadSeconds();
  report_.processor_s = used - reported_processor_s_;
  reported_processor_s_ = used;
  report_.packets = router_.counters() - reported_;
  reported_ = router_.counters();
  const HubReport taken = report_;
  report_ = HubReport();
  report_.real_time = taken.real_time;
  asked->set_value(taken);
}

void PacketHub::Loop() {
  sched_param priority{};
  priority.sched_priority = kPriority;
  report_.real_time = pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) == 0;
  prctl(PR_SET_TIMERSLACK, kTimerSlackNanos);
  collected_ = Now();
  while (!stop_) {
    Deliver();
    Collect();
    Wait();
  }
}

void PacketHub::Deliver() {
  due_.clear();
  entered_ = std::max(entered_, Now());
  router_.Advance(entered_, due_);
  for (const PacketPiece& piece : due_) {
    report_.lateness.Add(Now() - piece.passage.last);
    const bool whole = piece.count == piece.shape.segments;
    PacketPort& port = ports_[static_cast<size_t>(piece.to)];
    if (!(whole ? port.Write(*piece.packet) : port.Write(piece.Cut()))) report_.refused += 1;
  }
}

void PacketHub::Collect() {
  if (readable_.empty()) {
    collected_ = Now();
    return;
  }
  // Without sleep in between, what is read now may have waited since the last turn.
  if (!slept_) report_.lateness.Add(Now() - collected_);
  collected_ = Now();
  const Duration ago = slept_ ? oversleep_ : Duration();
  for (const int node : readable_) {
    Packet packet;
    for (int i = 0; i < kReadsPerTurn && ports_[static_cast<size_t>(node)].Read(packet); ++i) {
      if (IsCut(node, packet)) continue;
      entered_ = std::max(entered_, Now() - ago);
      router_.Enter(entered_, node, std::move(packet));
    }
  }
}

void PacketHub::NoteSleep(Duration too_long) {
  too_long = std::clamp(too_long, Duration(), kOversleepMax);
  oversleep_ = oversleep_ + Duration::Nanos((too_long - oversleep_).nanos() / kOversleepMemory);
}

// Until something is due or can be read. Fills readable_.
void PacketHub::Wait() {
  timespec timeout{};
  timespec* limit = nullptr;
  slept_ = true;
  const Instant now = Now();
  Instant wake = now;
  if (const auto due = router_.NextDue()) {
    const Duration left = *due - now - kSpin - oversleep_;
    slept_ = left > Duration();
    if (slept_) timeout = {left.nanos() / 1'000'000'000, left.nanos() % 1'000'000'000};
    wake = now + left;
    limit = &timeout;
  }
  readable_.clear();
  if (ppoll(ends_.data(), ends_.size(), limit, nullptr) <= 0) {
    if (slept_) NoteSleep(Now() - wake);
    return;
  }
  if (ends_[0].revents != 0) Answer();
  for (size_t i = 1; i < ends_.size(); ++i) {
    if (ends_[i].revents & POLLIN) readable_.push_back(static_cast<int>(i) - 1);
  }
}

}  // namespace skerry
