#include "coordinator/serve_program.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>

#include "common/status.h"
#include "coordinator/admission_program.h"
#include "coordinator/admission_view.h"
#include "coordinator/checkpoint_program.h"
#include "coordinator/coordinator_actor.h"
#include "coordinator/dashboard_access.h"
#include "coordinator/dashboard_program.h"
#include "coordinator/event_file.h"
#include "coordinator/held_out_program.h"
#include "coordinator/leader_program.h"
#include "coordinator/line_file.h"
#include "coordinator/log_program.h"
#include "coordinator/model_writer.h"
#include "coordinator/run_directory.h"
#include "coordinator/screen.h"
#include "coordinator/seat_program.h"
#include "coordinator/shard_source.h"
#include "coordinator/snapshot_program.h"
#include "coordinator/storage_program.h"
#include "coordinator/view_program.h"
#include "model/file_io.h"
#include "wire/config.h"
#include "wire/event_loop.h"
#include "wire/identity.h"
#include "wire/interrupt.h"
#include "wire/open_files.h"
#include "wire/ticket.h"

namespace skerry {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

std::string UtcNow() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

EventFile::Clock EventClock() {
  return {[start = Clock::now()] {
            return std::chrono::duration<double>(Clock::now() - start).count();
          },
          UtcNow};
}

std::string FieldsOf(const Json& object) {
  const std::string text = object.dump();
  return text.substr(1, text.size() - 2);
}

std::string RunFields(const OpenedRun& run) {
  const RunConfig& config = run.config;
  return FieldsOf({{"run", run.run.Short()},
                   {"name", config.name},
                   {"seed", config.seed},
                   {"parameters", ParameterLayout::ForModel(config.model).size()},
                   {"steps", config.steps},
                   {"skip_ratio", config.pipeline.skip_ratio},
                   {"nodes_min", config.nodes_min},
                   {"config", FormatRunConfig(config)}});
}

CoordinatorOptions ActorOptions(const OpenedRun& run, const NodeId& self, ShardSource& shards,
                                ModelWriter& model) {
  CoordinatorOptions options;
  options.config = run.config;
  options.run = run.run;
  options.shards = shards.names();
  options.verify_ticket =
      [self, id = run.run](const std::string& text) -> absl::StatusOr<AdmittedTicket> {
    SKERRY_ASSIGN_OR_RETURN(const Ticket ticket, VerifyTicket(text, std::time(nullptr)));
    if (ticket.coordinator != self || ticket.run != id) {
      return PermissionDenied("the ticket is for another run or coordinator [SK-ticket-other-run]");
    }
    if (ticket.role == TicketRole::kOperator) {
      return PermissionDenied("the ticket is an operator's, and admits no nodes");
    }
    return AdmittedTicket{ticket.IdHex(), ticket.uses, ticket.role == TicketRole::kGuest};
  };
  options.is_signed = [id = run.run](const NodeId& by, const auto& statement,
                                     const auto& signature) {
    return IsStatementOf(by, id, statement, signature);
  };
  options.keep_shown = [proofs = run.directory.File("proofs")](const SumCheck& check,
                                                               const Payload& shown) {
    const auto bytes = View(shown);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    std::error_code error;
    std::filesystem::create_directories(proofs, error);
    // Where it cannot be kept, signatures and digests stand in the journal all the same.
    WriteFileAtomically(proofs + "/" + ShownFileName(check), text).IgnoreError();
  };
  options.objects = &shards;
  options.model = &model;
  return options;
}

// Everything of one process that serves, or stands by to; in order of making.
struct Serving {
  const ServeOptions& options;
  OpenedRun run;
  Identity identity;
  std::unique_ptr<ShardSource> shards;
  std::unique_ptr<CoordinatorSeat> seat;
  ModelWriter model;
  EventFile events;
  LiveScreen screen = {};
  std::unique_ptr<CheckpointArchive> archive = {};
  std::unique_ptr<CoordinatorActor> actor = {};
  OrderReader orders = OrderReader(options.directory);
  HeldOutReader held_out = HeldOutReader(options.directory);
  std::unique_ptr<EventLoop> loop = {};
  std::string admission = {};          // as written last
  std::string status = {};             // as the actor said it last
  std::chrono::seconds final_left{0};  // that the finished run may wait for its held-out loss
};

// Pictures of the present, for commands and the dashboard: what cannot be written now may be the
// next time.
void WriteStatus(Serving& serving, const std::string& text) {
  const RunDirectory& directory = serving.run.directory;
  Json status = Json::parse(text);
  const Json& held_out = serving.held_out.newest();
  const bool waits = serving.final_left.count() > 0 && status.value("phase", "") == "finished";
  if (!held_out.empty()) status["held_out"] = held_out;
  if (waits) status["held_out_left_s"] = serving.final_left.count();
  WriteFileAtomically(directory.File("status.json"),
                      held_out.empty() && !waits ? text : status.dump() + "\n")
      .IgnoreError();
  if (!LogsJson()) serving.screen.Show(status);
  if (!serving.actor) return;
  std::string admission =
      AdmissionJson(serving.actor->state(), status, std::time(nullptr)).dump() + "\n";
  if (admission == serving.admission) return;
  if (WriteFileAtomically(directory.File("admission.json"), admission).ok()) {
    serving.admission = std::move(admission);
  }
}

absl::Status OpenLoop(Serving& serving) {
  EventLoopOptions loop_options{serving.identity};
  loop_options.run = serving.run.run;
  loop_options.role = HostRole::kCoordinator;
  // Nobody may foresee whose sums are checked.
  const auto random = RandomNonce();
  std::memcpy(&loop_options.seed, random.data(), sizeof loop_options.seed);
  loop_options.bind_endpoint = serving.options.bind;
  loop_options.handle_signals = true;
  loop_options.journal = [&seat = *serving.seat](const std::vector<std::string>& batch) {
    return seat.Append(batch);
  };
  loop_options.on_tick = [&serving](Context& context) {
    for (const AdmissionOrder& order : serving.orders.Take()) serving.actor->Obey(context, order);
    if (serving.held_out.Look()) {
      context.Event("held_out", FieldsOf(serving.held_out.newest()));
    }
  };
  if (serving.run.store.postgres) {
    loop_options.leads = [&seat = *serving.seat] { return seat.Leads(); };
  }
  loop_options.event_sink = [&serving](const std::string& kind, const std::string& fields) {
    serving.events.Write(kind, fields);
    LogEvent(kind, fields);
  };
  if (!serving.options.shape_file.empty()) {
    SKERRY_ASSIGN_OR_RETURN(loop_options.shape, LoadWanShape(serving.options.shape_file));
    loop_options.region = serving.options.region;
    loop_options.region_of = [&serving](const NodeId& node) {
      const auto it = serving.actor->state().nodes.find(node);
      return it == serving.actor->state().nodes.end() ? std::string() : it->second.region;
    };
  }
  SKERRY_ASSIGN_OR_RETURN(serving.loop, EventLoop::Open(std::move(loop_options)));
  return absl::OkStatus();
}

std::string ContinuedFrom(int64_t records, int64_t spared) {
  if (records == 0) return "";
  return absl::StrFormat("; continued from %d journal records", records) +
         (spared > 0 ? absl::StrFormat(", %d of them as the snapshot holds them", spared) : "");
}

// Why a run that is over is served for a while all the same.
std::string AfterTheEnd(const OpenedRun& run) {
  return absl::StrFormat(
      "the run is finished and its model is exported (%s); nodes that were away at the end are "
      "awaited for %.0f s, to send them home; Ctrl-C ends it at once",
      run.directory.File("model"), run.config.node_silent_s);
}

// From here on this process leads: the journal is read, and nobody else adds to it.
absl::Status MakeActor(Serving& serving) {
  CoordinatorOptions options =
      ActorOptions(serving.run, serving.identity.id(), *serving.shards, serving.model);
  options.status = [&serving](const std::string& text) {
    serving.status = text;
    WriteStatus(serving, text);
  };
  options.probes_at_once = serving.options.probes_at_once;
  options.tests_reach = true;
  options.doubts_uneven = true;
  options.tests_lines = true;
  SKERRY_ASSIGN_OR_RETURN(
      serving.archive,
      OpenArchive(serving.run.directory.path, [&seat = *serving.seat] { return seat.MayAct(); }));
  options.checkpoints = serving.archive.get();
  options.format_config = FormatRunConfig;
  options.coordinators = serving.seat->endpoints();
  SKERRY_ASSIGN_OR_RETURN(FoldedJournal folded,
                          serving.seat->Fold(serving.run.directory.path, serving.run.run));
  if (!folded.note.empty()) LogLine(folded.note);
  const int64_t records = folded.now.end.number;
  // run.toml may be edited between `init` and the first node, and not afterwards.
  if (records == 0 || serving.run.was_changed)
    SKERRY_RETURN_IF_ERROR(serving.seat->NoteConfig(serving.run.config));
  options.journal = {StateEntry(folded.now.state)};
  folded.now.state = {};
  SKERRY_ASSIGN_OR_RETURN(serving.actor, CoordinatorActor::Create(std::move(options)));
  LogLine(
      absl::StrFormat("serving run %s at %s", serving.run.run.Short(), serving.loop->endpoint()) +
      ContinuedFrom(records, folded.spared));
  if (const std::string note = NotesOn(serving.run.config); !note.empty()) LogLine(note);
  const RunState& state = serving.actor->state();
  const bool awaits = std::any_of(state.nodes.begin(), state.nodes.end(),
                                  [](const auto& node) { return node.second.alive; });
  if (state.exported && awaits) LogLine(AfterTheEnd(serving.run));
  return absl::OkStatus();
}

// The nodes have gone home and the model is written.
void SayModel(Serving& serving, HeldOutWatcher& held_out) {
  const auto say = [&](std::chrono::seconds left) {
    serving.final_left = left;
    WriteStatus(serving, serving.status);
  };
  // Not where another coordinator has written it, on its own machine.
  const bool is_here = std::ifstream(serving.run.directory.File("model/config.json")).good();
  if (is_here) LogLine("model: " + serving.run.directory.File("model"));
  if (serving.final_left.count() == 0) return;
  if (is_here) held_out.ReadFinal(say);
  if (is_here && serving.held_out.Look()) {
    serving.events.Write("held_out", FieldsOf(serving.held_out.newest()));
    serving.events.Flush();
  }
  say({});
}

// nullptr: none is wanted.
std::unique_ptr<DashboardChild> DashboardFor(const ServeOptions& options) {
  if (options.dashboard == "none") return nullptr;
  DashboardOptions dashboard;
  dashboard.directory = options.directory;
  dashboard.any_port = options.dashboard.empty();
  if (!options.dashboard.empty()) dashboard.address = options.dashboard;
  dashboard.patience_s = dashboard.any_port ? 0 : 10;
  return std::make_unique<DashboardChild>(dashboard);
}

// What is wrong with the command line is said before anything begins: later it would show when
// somebody wants a ticket, opens the page, or the first checkpoint is made.
absl::Status CheckCommand(const ServeOptions& options) {
  if (!options.advertise.empty()) {
    SKERRY_RETURN_IF_ERROR(CheckTicketEndpoint(options.advertise));
    SKERRY_RETURN_IF_ERROR(
        EndpointForTickets(RunDirectory{options.directory}, options.advertise).status());
  }
  if (!options.dashboard.empty() && options.dashboard != "none") {
    SKERRY_RETURN_IF_ERROR(ParseWebAddress(options.dashboard).status());
  }
  if (!options.push_checkpoints.empty() && !options.push_checkpoints.starts_with("s3://")) {
    return InvalidArgument("--push-checkpoints: want s3://BUCKET/PREFIX, got '%s' [SK-web]",
                           options.push_checkpoints);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> Serve(const ServeOptions& options) {
  CatchInterrupts();
  SKERRY_ASSIGN_OR_RETURN(OpenedRun run, OpenRunDirectory(options.directory));
  SKERRY_RETURN_IF_ERROR(CheckCommand(options));
  if (LogsJson()) LogAsJson(run.run.Short());
  RaiseOpenFileLimit();
  // Before keys, sockets and threads: their processes have none of them.
  const auto dashboard = DashboardFor(options);
  SnapshotWriter snapshots(options.directory, options.snapshot_every);
  HeldOutWatcher held_out(run, options.held_out);
  SKERRY_RETURN_IF_ERROR(LockRunDirectory(run.directory));
  SKERRY_ASSIGN_OR_RETURN(Identity identity, Identity::Load(run.directory.File("coordinator.key")));
  SKERRY_ASSIGN_OR_RETURN(auto seat, CoordinatorSeat::Open(run.store));
  SKERRY_ASSIGN_OR_RETURN(auto shards, ShardSource::Open(run.directory.File("data"), run.config));
  SKERRY_ASSIGN_OR_RETURN(LineFile lines, LineFile::Open(run.directory.File("events.jsonl")));
  ModelWriter model(run.config.model, run.directory.File("model"), TokenizerOf(run.directory.path));
  Serving serving{options,
                  std::move(run),
                  std::move(identity),
                  std::move(shards),
                  std::move(seat),
                  std::move(model),
                  EventFile(std::move(lines), EventClock())};
  serving.final_left = held_out.FinalPatience();
  // Bound before it leads: what is wrong with the address is wrong now, not when it is needed. Who
  // dials meanwhile waits at the handshake.
  SKERRY_RETURN_IF_ERROR(OpenLoop(serving));
  const std::string reached =
      options.advertise.empty() ? serving.loop->endpoint() : options.advertise;
  SKERRY_ASSIGN_OR_RETURN(const std::string moved, NoteEndpoint(serving.run, reached));
  if (dashboard) dashboard->Begin();
  SKERRY_RETURN_IF_ERROR(serving.seat->Take(reached, serving.shards->names()));
  SKERRY_RETURN_IF_ERROR(MakeActor(serving));
  if (!moved.empty() && !serving.actor->state().nodes.empty()) LogLine(moved);
  if (serving.seat->epoch() > 0) serving.loop->Lead(serving.seat->epoch());
  serving.seat->OnEndpoints([&serving] {
    serving.loop->Post([&serving](Context& context) {
      serving.actor->SetCoordinators(context, serving.seat->endpoints());
    });
  });
  serving.events.Write("run", RunFields(serving.run));
  std::optional<CheckpointPusher> pusher;
  if (!options.push_checkpoints.empty()) {
    pusher.emplace(options.directory, options.push_checkpoints);
  }
  const auto exit_code = serving.loop->Run(*serving.actor);
  pusher.reset();
  held_out.Stop();
  snapshots.Stop();
  serving.events.Flush();
  serving.seat->Leave();
  if (absl::IsAborted(exit_code.status())) {
    LogEnd(exit_code.status());
    return kDeposedExit;
  }
  SKERRY_RETURN_IF_ERROR(exit_code.status());
  if (*exit_code == 0 && serving.actor->state().exported) SayModel(serving, held_out);
  LogLine("ended: " + serving.loop->stop_reason());
  return *exit_code;
}

int ServeCommand(const ServeOptions& options) {
  if (options.log_format == "json") LogAsJson("");
  const auto served = Serve(options);
  return served.ok() ? *served : LogEnd(served.status());
}

absl::Status Watch(const std::string& directory) {
  SKERRY_RETURN_IF_ERROR(StoreOf(directory).status());
  const RunDirectory run{directory};
  LiveScreen screen;
  std::string last;
  auto changed = Clock::now();
  bool away = false, finished = false;
  LeaderWatch leader(directory);
  while (true) {
    leader.Look();
    std::ifstream in(run.File("status.json"));
    std::ostringstream text;
    text << in.rdbuf();
    if (text.str() != last) {
      last = text.str();
      changed = Clock::now();
      if (std::exchange(away, false)) std::printf("the coordinator is back\n");
      const Json status = Json::parse(last, nullptr, false);
      if (status.is_object()) {
        screen.Show(status);
        finished = status.value("phase", "") == "finished";
        if (finished && !status.contains("held_out_left_s")) return absl::OkStatus();
      }
    } else if (finished && Clock::now() - changed > std::chrono::seconds(5)) {
      return absl::OkStatus();  // ended before it had read the model's loss
    } else if (!away && Clock::now() - changed > std::chrono::seconds(5)) {
      away = true;
      std::printf("the coordinator has said nothing for 5 s; nodes go on without it for a while\n");
      std::fflush(stdout);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

}  // namespace skerry
