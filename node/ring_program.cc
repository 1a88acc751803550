#include "node/ring_program.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "common/status.h"
#include "node/device_probe.h"
#include "node/own_addresses.h"
#include "node/ring_trial.h"
#include "wire/config.h"
#include "wire/event_loop.h"
#include "wire/identity.h"
#include "wire/message/reachability.h"
#include "wire/ticket.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

constexpr int64_t kTicketLifetimeS = 24 * 3600;

absl::StatusOr<std::vector<GroupOperation>> OperationsOf(const std::string& wanted) {
  std::vector<GroupOperation> found;
  for (int i = 0; i <= static_cast<int>(GroupOperation::kLast); ++i) {
    const auto operation = static_cast<GroupOperation>(i);
    if (wanted == "all" || wanted == NameOf(operation)) found.push_back(operation);
  }
  if (!found.empty()) return found;
  return InvalidArgument(
      "--operation wants all-reduce, reduce-scatter, all-gather, broadcast or all, and got \"%s\"",
      wanted);
}

absl::StatusOr<std::vector<RingTask>> TasksOf(const RingOptions& options) {
  SKERRY_ASSIGN_OR_RETURN(const auto operations, OperationsOf(options.operation));
  const auto values = static_cast<int64_t>(options.mib * (1 << 20) / sizeof(float));
  if (const int64_t free = HostMemoryFree(); RingTrialBytes(values) > free) {
    return InvalidArgument(
        "--mib %g wants %d MiB of memory on every machine, and %d MiB are free on this one",
        options.mib, RingTrialBytes(values) >> 20, free >> 20);
  }
  std::vector<RingTask> tasks;
  for (const GroupOperation operation : operations)
    tasks.push_back({operation, values, options.times});
  return tasks;
}

// Where others reach what is bound to `endpoint`.
std::string AdvertisedAt(const std::string& endpoint, const std::string& advertise) {
  if (!advertise.empty()) return advertise;
  auto own = ListensAt(endpoint, OwnAddresses());
  if (own.empty()) own = ListensAt(endpoint, {"127.0.0.1"});
  return own.empty() ? endpoint : own.front();
}

EventLoopOptions LoopOptions(const RingOptions& options, const RunId& ring, HostRole role) {
  EventLoopOptions loop{Identity::Generate()};
  loop.run = ring;
  loop.role = role;
  const auto random = RandomNonce();
  std::memcpy(&loop.seed, random.data(), sizeof loop.seed);
  loop.bind_endpoint = options.listen;
  loop.handle_signals = true;
  return loop;
}

void Print(const RingFigures& f) {
  std::printf("%-14s %d members  %8.1f MiB  %9.2f ms  %8.1f Mbit/s sent by each  %s\n",
              NameOf(f.task.operation), f.members,
              4 * static_cast<double>(f.task.values) / (1 << 20), 1e3 * f.seconds,
              8e-6 * f.wire_bytes_per_s, f.is_right ? "all right, bit for bit" : "WRONG");
  std::fflush(stdout);
}

Json JsonOf(const RingFigures& f) {
  return {{"operation", NameOf(f.task.operation)},
          {"members", f.members},
          {"bytes", 4 * f.task.values},
          {"seconds", f.seconds},
          {"wire_bytes_per_s", f.wire_bytes_per_s},
          {"right", f.is_right}};
}

absl::Status Ended(const absl::StatusOr<int>& exit_code, const std::string& why) {
  SKERRY_RETURN_IF_ERROR(exit_code.status());
  return *exit_code == 0 ? absl::OkStatus() : Unavailable("ring: %s", why);
}

absl::Status Host(const RingOptions& options) {
  RingTrialHost::Options host;
  SKERRY_ASSIGN_OR_RETURN(host.tasks, TasksOf(options));
  const RunId ring{RandomNonce()};
  EventLoopOptions loop_options = LoopOptions(options, ring, HostRole::kCoordinator);
  const Identity identity = loop_options.identity;
  RingTrialHost* actor = nullptr;
  loop_options.on_interrupt = [&](Context& context) { actor->Stop(context, 1, "interrupted"); };
  SKERRY_ASSIGN_OR_RETURN(const auto loop, EventLoop::Open(std::move(loop_options)));
  host.endpoint = AdvertisedAt(loop->endpoint(), options.advertise);
  SKERRY_ASSIGN_OR_RETURN(
      host.ticket,
      IssueTicket(identity, {host.endpoint, ring, std::time(nullptr) + kTicketLifetimeS,
                             static_cast<uint32_t>(options.members)}));
  host.members = options.members;
  host.dials_back = true;
  std::memcpy(&host.first_group, ring.bytes.data(), sizeof(uint32_t));
  host.first_group <<= 16;
  host.say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  Json all = Json::array();
  bool is_right = true;
  host.on_figures = [&](const RingFigures& figures) {
    is_right = is_right && figures.is_right;
    all.push_back(JsonOf(figures));
    if (!options.json) Print(figures);
  };
  host.say(absl::StrFormat("on %d other machine%s: skerry-node ring %s", options.members - 1,
                           options.members == 2 ? "" : "s", host.ticket));
  RingTrialHost trial(std::move(host));
  actor = &trial;
  const auto exit_code = loop->Run(trial);
  if (options.json) std::printf("%s\n", all.dump(2).c_str());
  SKERRY_RETURN_IF_ERROR(Ended(exit_code, loop->stop_reason()));
  if (!is_right) return DataLoss("ring: a sum was not what it is by definition");
  return absl::OkStatus();
}

absl::Status Join(const RingOptions& options) {
  SKERRY_ASSIGN_OR_RETURN(const Ticket ticket, VerifyTicket(options.ticket, std::time(nullptr)));
  EventLoopOptions loop_options = LoopOptions(options, ticket.run, HostRole::kNode);
  loop_options.coordinator = PeerAddress{ticket.coordinator, ticket.endpoint};
  RingTrialMember* actor = nullptr;
  loop_options.on_interrupt = [&](Context& context) { actor->Leave(context); };
  SKERRY_ASSIGN_OR_RETURN(const auto loop, EventLoop::Open(std::move(loop_options)));
  RingTrialMember::Options member;
  member.host = ticket.coordinator;
  member.hello.ticket = options.ticket;
  member.memory_bytes = HostMemoryFree();
  member.hello.endpoint = AdvertisedAt(loop->endpoint(), options.advertise);
  member.hello.listens = ListensAt(loop->endpoint(), OwnAddresses());
  if (member.hello.listens.size() > kListensMax) member.hello.listens.resize(kListensMax);
  RingTrialMember trial(std::move(member));
  actor = &trial;
  const auto exit_code = loop->Run(trial);
  return Ended(exit_code, loop->stop_reason());
}

}  // namespace

absl::Status TryRing(const RingOptions& options) {
  return options.ticket.empty() ? Host(options) : Join(options);
}

}  // namespace skerry
