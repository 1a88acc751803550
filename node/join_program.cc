#include "node/join_program.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <utility>

#include "common/cli_program.h"
#include "common/status.h"
#include "kernels/cpu/thread_limit.h"
#include "kernels/plugin/gpu_lane.h"
#include "model/weight_store.h"
#include "node/desk_program.h"
#include "node/device_probe.h"
#include "node/gpu_failure_program.h"
#include "node/home_lock_program.h"
#include "node/limits_program.h"
#include "node/metrics_program.h"
#include "node/network_cards.h"
#include "node/node_actor.h"
#include "node/offer_program.h"
#include "node/own_addresses.h"
#include "node/region_book_program.h"
#include "node/say.h"
#include "node/shard_directory.h"
#include "node/trained_stage.h"
#include "wire/config.h"
#include "wire/event_loop.h"
#include "wire/identity.h"
#include "wire/interrupt.h"
#include "wire/open_files.h"
#include "wire/ticket.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<EventLoopOptions> LoopOptions(const JoinOptions& options, const Ticket& ticket,
                                             Identity identity) {
  EventLoopOptions loop{std::move(identity)};
  loop.run = ticket.run;
  loop.role = HostRole::kNode;
  const auto random = RandomNonce();  // nonces of pings
  std::memcpy(&loop.seed, random.data(), sizeof loop.seed);
  loop.bind_endpoint = options.listen;
  loop.coordinator = PeerAddress{ticket.coordinator, ticket.endpoint};
  loop.handle_signals = true;
  loop.relays = options.relay;
  loop.event_sink = [](const std::string& kind, const std::string& fields) {
    SayEvent(kind, fields);
  };
  if (!options.shape_file.empty()) {
    SKERRY_ASSIGN_OR_RETURN(loop.shape, LoadWanShape(options.shape_file));
    loop.region = options.region;
  }
  return loop;
}

// What stays the same however often a node rests and joins again.
struct Membership {
  const JoinOptions& options;
  Ticket ticket;
  Identity identity;
  fs::path home;
  NodeActorOptions node;
  ShardCache* cache;
};

// Why a stay ended, where it is not over for good.
struct StayEnd {
  bool rests = false;                      // it left because of its volunteer's limits
  std::optional<MemoryOffer> offers_next;  // memory ran out
};

// One stay in the run.
absl::StatusOr<int> Stay(const Membership& member, Rationing& ration, Desk& desk, StayEnd& end) {
  member.cache->Begin();
  SKERRY_ASSIGN_OR_RETURN(EventLoopOptions loop_options,
                          LoopOptions(member.options, member.ticket, member.identity));
  std::unique_ptr<NodeActor> actor;
  std::unique_ptr<RegionBook> book;
  std::unique_ptr<EventLoop> loop;
  loop_options.region_of = [&book](const NodeId& id) { return book->RegionOf(id); };
  loop_options.on_interrupt = [&](Context& context) {
    desk.Close();
    member.cache->Stop();
    actor->Leave(context, "interrupted");
  };
  loop_options.on_tick = [&](Context& context) {
    const std::string why = ration.Tick(*loop);
    desk.Tick(context, *actor, *loop);
    if (why.empty() || std::exchange(end.rests, true)) return;
    member.cache->Stop();
    actor->Leave(context, why);
  };
  SKERRY_ASSIGN_OR_RETURN(loop, EventLoop::Open(std::move(loop_options)));
  NodeActorOptions node = member.node;
  const std::string& advertise = member.options.advertise;
  node.endpoint = advertise.empty() ? loop->endpoint() : advertise;
  for (const std::string& endpoint : loop->endpoints()) {
    if (endpoint != node.endpoint) node.listens.push_back(endpoint);
    const auto own = ListensAt(endpoint, OwnAddresses());
    node.listens.insert(node.listens.end(), own.begin(), own.end());
  }
  if (node.listens.size() > kListensMax) node.listens.resize(kListensMax);
  node.process = loop->incarnation();
  node.shown = [loop = loop.get()](const NodeId& peer) { return loop->Shown(peer); };
  node.sign = [&member](std::span<const uint8_t> statement) {
    return SignStatement(member.identity, member.ticket.run, statement);
  };
  Say(absl::StrFormat("node %s, %s, %s; joining %s", node.self.Short(), node.device.name,
                      RatesText(node.device), member.ticket.endpoint));
  actor = std::make_unique<NodeActor>(std::move(node));
  book = std::make_unique<RegionBook>(*actor, member.ticket, (member.home / kReachFile).string(),
                                      desk, [&](const NodeId& from, const Welcome& welcome) {
                                        if (from == member.ticket.coordinator)
                                          loop->SetCoordinatorEndpoints(welcome.coordinators);
                                      });
  const auto exit_code = loop->Run(*book);
  ration.End(*loop);
  end.offers_next = actor->offer_after_shortage();
  SKERRY_RETURN_IF_ERROR(exit_code.status());
  Say("ended: " + loop->stop_reason());
  return *exit_code;
}

struct Devices {
  std::vector<DeviceChoice> chosen;
  std::vector<double> rates;
};

// Where a device has what it has no room for.
StashParking ParkingOf(const StageOrder& order, bool is_gpu, const std::string& directory) {
  if (order.parked_stashes == 0) return {};
  const bool on_disk = !is_gpu || order.parks_on_disk;
  return {order.resident_stashes, order.parked_stashes, on_disk ? directory : "", is_gpu};
}

// Backends of all of them. ResourceExhausted, before it is taken: a system that gives more than it
// has kills whoever uses it.
absl::StatusOr<std::vector<TrainedStage::Device>> Open(const Devices& devices, DType compute,
                                                       const StageOrder& order,
                                                       const std::string& spill) {
  const auto on_host = std::count_if(devices.chosen.begin(), devices.chosen.end(),
                                     [](const DeviceChoice& device) { return !device.gpu; });
  std::vector<TrainedStage::Device> opened;
  for (size_t i = 0; i < devices.chosen.size(); ++i) {
    const DeviceChoice& device = devices.chosen[i];
    SKERRY_ASSIGN_OR_RETURN(auto backend, device.Create(compute));
    if (backend->compute_type() != compute) {
      Say(absl::StrFormat("%s: the run asks for bf16, which is no faster here, so float32",
                          backend->name()));
    }
    const int64_t free = MemoryFree(*backend) / (device.gpu ? 1 : on_host);
    if (free < order.needs_bytes) {
      return ResourceExhausted("the stage takes %s, and %s are free now [SK-memory]",
                               BytesText(order.needs_bytes), BytesText(free));
    }
    if (device.gpu && HostMemoryFree() < order.host_bytes) {
      return ResourceExhausted(
          "the stage takes %s of the host's memory beside the GPU's, and %s are free now "
          "[SK-memory]",
          BytesText(order.host_bytes), BytesText(HostMemoryFree()));
    }
    opened.push_back(
        {std::move(backend), devices.rates[i], nullptr, ParkingOf(order, device.gpu, spill)});
    if (order.offloads && device.gpu) {
      const auto sharing = static_cast<int>(devices.chosen.size());
      opened.back().host = CreateCpuBackend(std::max(1, device.threads / sharing));
    }
  }
  return opened;
}

// Of stages on these devices; all must outlive it.
StageWorkFactory BuilderOf(const Devices& devices, ShardDirectory& shards,
                           const std::string& spill) {
  return [&devices, &shards, &spill](
             const RunConfig& config, const StageOrder& order,
             const std::vector<ShardName>& names) -> absl::StatusOr<std::unique_ptr<StageWork>> {
    std::unique_ptr<TokenSource> tokens;
    if (order.holds_ends) {
      SKERRY_ASSIGN_OR_RETURN(tokens, shards.Open(config, names));
    }
    SKERRY_ASSIGN_OR_RETURN(auto opened, Open(devices, ComputeTypeOf(config.inner), order, spill));
    const int32_t sequences = config.pipeline.sequences_per_microbatch;
    const bool share_them = order.split == DeviceSplit::kSequences;
    if (share_them && sequences < static_cast<int32_t>(opened.size())) {
      Say(absl::StrFormat("a microbatch of this run has %d sequences: %d of %d devices work",
                          sequences, sequences, opened.size()));
    }
    return TrainedStage::Create(config, order.stage, order.holds_ends, std::move(opened),
                                std::move(tokens), order.recomputed_layers, order.split);
  };
}

// nullptr: nobody has asked for them.
absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsOf(const JoinOptions& options,
                                                         const fs::path& home) {
  if (options.metrics.empty()) return nullptr;
  SKERRY_ASSIGN_OR_RETURN(auto metrics, MetricsServer::Open(options.metrics, home.string()));
  Say(absl::StrFormat("metrics are at port %d", metrics->port()));
  return metrics;
}

// nullptr: its cohort's sums go as messages.
std::unique_ptr<GpuLanes> LanesOf(const JoinOptions& options,
                                  const std::vector<DeviceChoice>& devices) {
  if (!options.nccl) return nullptr;
  const auto gpu = std::find_if(devices.begin(), devices.end(),
                                [](const DeviceChoice& device) { return device.gpu; });
  auto lanes =
      gpu == devices.end() ? Unavailable("this node trains on no GPU") : GpuLanes::Open(gpu->index);
  if (lanes.ok()) return *std::move(lanes);
  Say("--nccl: " + ErrorText(lanes.status()) + "; sums of a cluster go as messages");
  return nullptr;
}

absl::Status KeepLimits(const LimitChange& change, const fs::path& home) {
  if (change.IsEmpty()) return absl::OkStatus();
  SKERRY_ASSIGN_OR_RETURN(const auto limits, ChangedLimits(home.string(), change));
  return SaveLimits((home / kLimitsFile).string(), limits);
}

// Before anything begins: later it would show only when no peer gets through.
absl::Status CheckAddresses(const JoinOptions& options) {
  SKERRY_RETURN_IF_ERROR(CheckListens(options.listen));
  if (options.advertise.empty()) return absl::OkStatus();
  SKERRY_RETURN_IF_ERROR(CheckTicketEndpoint(options.advertise));
  return CheckNamesMachine(options.advertise);
}

absl::StatusOr<std::vector<DeviceChoice>> Choose(const JoinOptions& options, int threads) {
  SKERRY_ASSIGN_OR_RETURN(auto chosen,
                          ChooseDevices(options.devices, options.device, threads, FailedGpus()));
  JoinAnewWithoutFailedGpu(chosen);
  if (!LastGpuFailure().empty()) Say(LastGpuFailure() + "; joining again without it");
  Say("training uses " + DevicesText(chosen));
  return chosen;
}

absl::StatusOr<int> JoinRun(const JoinOptions& options) {
  CatchInterrupts();
  SKERRY_RETURN_IF_ERROR(CheckAddresses(options));
  SKERRY_ASSIGN_OR_RETURN(const Ticket ticket, VerifyTicket(options.ticket, std::time(nullptr)));
  RaiseOpenFileLimit();
  const fs::path home = NodeHome(options.home);
  std::error_code error;
  fs::create_directories(home, error);
  if (error) return Unavailable("%s: %s [SK-disk-write]", home.string(), error.message());
  SKERRY_ASSIGN_OR_RETURN(const HomeLock lock, HomeLock::Take(home.string()));
  SKERRY_ASSIGN_OR_RETURN(Identity identity, Identity::LoadOrCreate((home / "node.key").string()));
  const NodeId self = identity.id();
  if (SaysJson()) SayAsJson(self.Short());
  SKERRY_RETURN_IF_ERROR(KeepLimits(options.limits, home));
  Rationing ration(home);
  SKERRY_RETURN_IF_ERROR(ration.Begin());
  SKERRY_ASSIGN_OR_RETURN(const auto cache, ShardCache::Open(options.cache, home, ticket.endpoint));
  ration.CountAlso([&cache] { return cache->bytes(); });
  const int threads = BoundedThreads(options.threads);
  Devices devices;
  SKERRY_ASSIGN_OR_RETURN(devices.chosen, Choose(options, threads));
  NodeActorOptions node;
  node.self = self;
  node.coordinator = ticket.coordinator;
  node.ticket = options.ticket;
  node.region = options.region;
  node.software = kNodeSoftware;
  SKERRY_ASSIGN_OR_RETURN(TeamProfile team, ProbeDevices(devices.chosen, options.split));
  devices.rates = team.rates;
  node.device = std::move(team.whole);
  node.device.network = NetworkOf(NetworkCards());
  SKERRY_RETURN_IF_ERROR(BoundOffer(options, devices.chosen, team.host_free, node.device));
  node.shards = &cache->shards();
  node.build = BuilderOf(devices, cache->shards(), options.spill);
  node.relays = options.relay;
  node.traces = !options.no_traces;
  const auto lanes = LanesOf(options, devices.chosen);
  if (lanes) node.lane = [&lanes] { return lanes->Make(); };
  Membership member{options, ticket, identity, home, std::move(node), cache.get()};
  SKERRY_ASSIGN_OR_RETURN(const auto metrics, MetricsOf(options, home));
  Desk desk(home, self, member.node.device.name);
  while (true) {
    if (!ration.WaitUntilAllowed([&desk](const std::string& why) { desk.Rest(why); }))
      return kInterruptedExit;
    StayEnd end;
    SKERRY_ASSIGN_OR_RETURN(const int exit_code, Stay(member, ration, desk, end));
    if (end.offers_next && end.offers_next->device_bytes >= kProcessBytes) {
      DeviceProfile& offers = member.node.device;
      Say(absl::StrFormat("memory or disk ran out: joining again, offering %s instead of %s",
                          OfferText(*end.offers_next), OfferText(OfferOf(offers))));
      offers.memory_bytes = end.offers_next->device_bytes;
      offers.host_bytes = end.offers_next->host_bytes;
      offers.spill_bytes = end.offers_next->spill_bytes;
      continue;
    }
    if (!end.rests || exit_code != 0) return exit_code;
  }
}

}  // namespace

std::string NodeHome(const std::string& given) {
  if (!given.empty()) return given;
  const char* data = std::getenv("XDG_DATA_HOME");
  const char* home = std::getenv("HOME");
  if (data != nullptr && data[0] != '\0') return std::string(data) + "/skerry";
  const passwd* self = home == nullptr ? getpwuid(getuid()) : nullptr;  // as under cron
  if (self != nullptr) home = self->pw_dir;
  return std::string(home != nullptr ? home : ".") + "/.local/share/skerry";
}

absl::StatusOr<VolunteerLimits> ChangedLimits(const std::string& home, const LimitChange& change) {
  const std::string file = (fs::path(NodeHome(home)) / kLimitsFile).string();
  SKERRY_ASSIGN_OR_RETURN(VolunteerLimits limits, LoadLimits(file));
  if (change.up_mbit) limits.up_mbit = *change.up_mbit;
  if (change.down_mbit) limits.down_mbit = *change.down_mbit;
  if (change.daily_gb) limits.daily_gb = *change.daily_gb;
  if (change.yields_gpu) limits.yields_gpu = *change.yields_gpu;
  if (change.hours && (change.hours->empty() || *change.hours == "always")) {
    limits.hours.reset();
  } else if (change.hours) {
    SKERRY_ASSIGN_OR_RETURN(limits.hours, ParseHours(*change.hours));
  }
  return limits;
}

absl::Status ChangeLimits(const std::string& home, const LimitChange& change) {
  SKERRY_ASSIGN_OR_RETURN(const VolunteerLimits limits, ChangedLimits(home, change));
  if (!change.IsEmpty()) {
    std::error_code none;
    fs::create_directories(NodeHome(home), none);
    const fs::path file = fs::path(NodeHome(home)) / kLimitsFile;
    SKERRY_RETURN_IF_ERROR(SaveLimits(file.string(), limits));
  }
  Say("limits: " + Describe(limits));
  return absl::OkStatus();
}

int Join(const JoinOptions& options) {
  if (options.log_format == "json") SayAsJson("");
  const auto exit_code = JoinRun(options);
  if (exit_code.ok()) return *exit_code;
  return SayError(exit_code.status()) ? 1 : EndedWith("skerry-node", exit_code.status());
}

}  // namespace skerry
