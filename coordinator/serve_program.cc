#include "coordinator/serve_program.h"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "common/status.h"
#include "coordinator/checkpoint_program.h"
#include "coordinator/coordinator_actor.h"
#include "coordinator/journal_sqlite.h"
#include "coordinator/line_file.h"
#include "coordinator/model_writer.h"
#include "coordinator/run_directory.h"
#include "coordinator/screen.h"
#include "coordinator/shard_source.h"
#include "model/file_io.h"
#include "wire/config.h"
#include "wire/event_loop.h"
#include "wire/identity.h"
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

// events.jsonl: what was seen stays seen.
class EventFile {
 public:
  explicit EventFile(LineFile file) : file_(std::move(file)), start_(Clock::now()) {}
  // `fields`: the members of a JSON object, with or without its braces.
  void Write(const std::string& kind, std::string fields) {
    if (fields.starts_with('{') && fields.ends_with('}')) {
      fields = fields.substr(1, fields.size() - 2);
    }
    const double t = std::chrono::duration<double>(Clock::now() - start_).count();
    file_.Append(absl::StrFormat(R"({"t":%.3f,"utc":"%s","kind":"%s"%s%s})", t, UtcNow(), kind,
                                 fields.empty() ? "" : ",", fields));
  }

 private:
  LineFile file_;
  Clock::time_point start_;
};

std::string RunFields(const OpenedRun& run) {
  const RunConfig& config = run.config;
  const std::string text = Json{{"run", run.run.Short()},
                                {"name", config.name},
                                {"seed", config.seed},
                                {"parameters", ParameterLayout::ForModel(config.model).size()},
                                {"steps", config.steps},
                                {"skip_ratio", config.pipeline.skip_ratio},
                                {"nodes_min", config.nodes_min},
                                {"config", FormatRunConfig(config)}}
                               .dump();
  return text.substr(1, text.size() - 2);
}

CoordinatorOptions ActorOptions(const OpenedRun& run, const NodeId& self, ShardSource& shards,
                                ModelWriter& model, LiveScreen& screen) {
  CoordinatorOptions options;
  options.config = run.config;
  options.run = run.run;
  options.shards = shards.names();
  options.verify_ticket =
      [self, id = run.run](const std::string& text) -> absl::StatusOr<AdmittedTicket> {
    SKERRY_ASSIGN_OR_RETURN(const Ticket ticket, VerifyTicket(text, std::time(nullptr)));
    if (ticket.coordinator != self || ticket.run != id) {
      return PermissionDenied("the ticket is for another run or coordinator");
    }
    return AdmittedTicket{ticket.IdHex(), ticket.uses};
  };
  options.objects = &shards;
  options.model = &model;
  options.status = [&screen, path = run.directory.File("status.json")](const std::string& json) {
    WriteFileAtomically(path, json)
        .IgnoreError();  // a picture of the present; the next may succeed
    screen.Show(Json::parse(json));
  };
  return options;
}

}  // namespace

absl::StatusOr<int> Serve(const ServeOptions& options) {
  SKERRY_ASSIGN_OR_RETURN(const OpenedRun run, OpenRunDirectory(options.directory));
  SKERRY_RETURN_IF_ERROR(LockRunDirectory(run.directory));
  SKERRY_ASSIGN_OR_RETURN(const Identity identity,
                          Identity::Load(run.directory.File("coordinator.key")));
  SKERRY_ASSIGN_OR_RETURN(auto journal, SqliteJournal::Open(run.directory.File("journal.sqlite"),
                                                            SqliteJournal::Access::kWrite));
  SKERRY_ASSIGN_OR_RETURN(auto shards, ShardSource::Open(run.directory.File("data")));
  ModelWriter model(run.config.model, run.directory.File("model"));
  SKERRY_ASSIGN_OR_RETURN(LineFile lines, LineFile::Open(run.directory.File("events.jsonl")));
  EventFile events(std::move(lines));
  LiveScreen screen;
  CoordinatorOptions actor_options = ActorOptions(run, identity.id(), *shards, model, screen);
  actor_options.probes_at_once = options.probes_at_once;
  actor_options.tests_reach = true;
  SKERRY_ASSIGN_OR_RETURN(const auto archive, OpenArchive(run.directory.path));
  actor_options.checkpoints = archive.get();
  actor_options.format_config = FormatRunConfig;
  SKERRY_ASSIGN_OR_RETURN(actor_options.journal, journal->Load());
  const size_t records = actor_options.journal.size();
  SKERRY_ASSIGN_OR_RETURN(auto actor, CoordinatorActor::Create(std::move(actor_options)));

  EventLoopOptions loop_options{identity};
  loop_options.run = run.run;
  loop_options.role = HostRole::kCoordinator;
  loop_options.bind_endpoint = options.bind;
  loop_options.handle_signals = true;
  loop_options.journal = [&journal](std::vector<std::string> batch) {
    return journal->Append(batch);
  };
  loop_options.event_sink = [&events](const std::string& kind, const std::string& fields) {
    events.Write(kind, fields);
    if (kind.starts_with("journal_")) {  // nothing goes on until somebody makes room
      std::fprintf(stderr, "skerry-coordinator: %s %s\n", kind.c_str(), fields.c_str());
    }
  };
  if (!options.shape_file.empty()) {
    SKERRY_ASSIGN_OR_RETURN(loop_options.shape, LoadWanShape(options.shape_file));
    loop_options.region = options.region;
    loop_options.region_of = [&actor](const NodeId& node) {
      const auto it = actor->state().nodes.find(node);
      return it == actor->state().nodes.end() ? std::string() : it->second.region;
    };
  }
  SKERRY_ASSIGN_OR_RETURN(auto loop, EventLoop::Open(std::move(loop_options)));
  const std::string reached = options.advertise.empty() ? loop->endpoint() : options.advertise;
  SKERRY_RETURN_IF_ERROR(WriteFileAtomically(run.directory.File("endpoint"), reached + "\n"));
  events.Write("run", RunFields(run));
  std::printf(
      "serving run %s at %s%s\n", run.run.Short().c_str(), loop->endpoint().c_str(),
      records > 0 ? absl::StrFormat("; continued from %d journal records", records).c_str() : "");
  std::fflush(stdout);
  SKERRY_ASSIGN_OR_RETURN(const int exit_code, loop->Run(*actor));
  std::printf("ended: %s\n", loop->stop_reason().c_str());
  return exit_code;
}

absl::Status Watch(const std::string& directory) {
  const RunDirectory run{directory};
  LiveScreen screen;
  std::string last;
  auto changed = Clock::now();
  bool away = false;
  while (true) {
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
        if (status.value("phase", "") == "finished") return absl::OkStatus();
      }
    } else if (!away && Clock::now() - changed > std::chrono::seconds(5)) {
      away = true;
      std::printf("the coordinator has said nothing for 5 s; nodes go on without it for a while\n");
      std::fflush(stdout);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

}  // namespace skerry
