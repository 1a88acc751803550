// skerry-coordinator: what an operator runs for a training run.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "common/cli_numbers_program.h"
#include "common/cli_program.h"
#include "common/share_line_program.h"
#include "common/status.h"
#include "coordinator/admission_program.h"
#include "coordinator/audit.h"
#include "coordinator/checkpoint_program.h"
#include "coordinator/dashboard_program.h"
#include "coordinator/data_program.h"
#include "coordinator/explain_program.h"
#include "coordinator/listings.h"
#include "coordinator/report.h"
#include "coordinator/run_directory.h"
#include "coordinator/run_templates.h"
#include "coordinator/serve_program.h"
#include "coordinator/snapshot_program.h"
#include "coordinator/storage_program.h"
#include "coordinator/view_program.h"
#include "wire/config.h"
#include "wire/identity.h"
#include "wire/ticket.h"

namespace skerry {
namespace {

int Ended(const absl::Status& status) {
  return EndedWith("skerry-coordinator", status);
}

// "24h", "90m", "7d", "3600" (seconds).
absl::StatusOr<int64_t> ParseLifetime(const std::string& text) {
  size_t digits = 0;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits])) != 0)
    ++digits;
  const std::string unit = text.substr(digits);
  const std::map<std::string, int64_t> seconds = {
      {"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
  constexpr size_t kDigitsMax = 9;
  const bool is_number = digits > 0 && digits <= kDigitsMax && seconds.contains(unit);
  const int64_t number = is_number ? std::stoll(text.substr(0, digits)) : 0;
  if (number > 0) return number * seconds.at(unit);
  return InvalidArgument(
      "--expires: want a number above 0 with s, m, h or d, as in 24h; got '%s' "
      "[SK-ticket-lifetime]",
      text);
}

struct TicketRequest {
  std::string directory, endpoint, expires = "24h";
  uint32_t uses = 1;
  bool asks = false;
};

absl::Status PrintTicket(const TicketRequest& request) {
  SKERRY_ASSIGN_OR_RETURN(const OpenedRun run, OpenRunDirectory(request.directory));
  SKERRY_ASSIGN_OR_RETURN(const Identity identity,
                          Identity::Load(run.directory.File("coordinator.key")));
  SKERRY_ASSIGN_OR_RETURN(const std::string endpoint,
                          EndpointForTickets(run.directory, request.endpoint));
  SKERRY_ASSIGN_OR_RETURN(const int64_t lifetime, ParseLifetime(request.expires));
  const TicketRole role = request.asks ? TicketRole::kGuest : TicketRole::kNode;
  SKERRY_ASSIGN_OR_RETURN(const std::string text,
                          IssueTicket(identity, {endpoint, run.run, std::time(nullptr) + lifetime,
                                                 request.uses, role}));
  SKERRY_RETURN_IF_ERROR(NoteTicket(request.directory, *DecodeTicket(text)));
  std::printf("%s\n", text.c_str());
  std::ifstream in(run.directory.File("status.json"));
  const auto status = nlohmann::json::parse(in, nullptr, false);
  if (status.is_object() && status.value("phase", "") == "finished") {
    std::fprintf(stderr, "note: the run is finished; whoever joins by this ticket is sent home\n");
  }
  return absl::OkStatus();
}

absl::Status WriteRunReport(const std::string& directory, const std::string& extra,
                            const std::string& out) {
  std::optional<std::filesystem::path> extra_file;
  if (!extra.empty()) extra_file = extra;
  SKERRY_ASSIGN_OR_RETURN(const std::filesystem::path log, EventLogOf(directory));
  ShareLine line("reading the events");
  SKERRY_ASSIGN_OR_RETURN(
      const RunReport report,
      BuildReport({log}, extra_file, [&line](double share) { line.Show(share); }));
  return WriteReport(report, out.empty() ? directory : out);
}

absl::Status PrintPlan(const std::string& directory, bool json) {
  SKERRY_ASSIGN_OR_RETURN(const OpenedRun run, OpenRunDirectory(directory));
  SKERRY_ASSIGN_OR_RETURN(const RunState state, LoadRunState(run.directory));
  std::cout << (json ? PlanJson(state, run.config).dump(2) + "\n" : PlanText(state, run.config));
  return absl::OkStatus();
}

// What the journal proves; an error if it contradicts itself.
absl::Status PrintAudit(const std::string& directory, bool json) {
  SKERRY_ASSIGN_OR_RETURN(const OpenedRun run, OpenRunDirectory(directory));
  JournalAudit audit(run.config);
  absl::Status whole =
      ReadJournal(run.directory, [&audit](const std::string& record) { audit.Add(record); });
  if (whole.ok()) whole = audit.known();
  if (whole.ok()) audit.End();
  std::cout << (json ? AuditJson(audit).dump(2) + "\n" : AuditText(audit));
  if (!whole.ok() && !json) std::cout << "that far; what follows could not be read\n";
  SKERRY_RETURN_IF_ERROR(whole);
  if (audit.found() == 0) return absl::OkStatus();
  return DataLoss("%s: the journal contradicts itself in %d places [SK-journal-contradicts]",
                  directory, audit.found());
}

// Everything the command line can say; one per process.
struct CommandLine {
  InitOptions init;
  TicketRequest ticket;
  ServeOptions serve;
  std::string directory, extra, out, file;
  PrepareRequest prepare;
  TokenizerRequest tokenizer;
  bool json = false;
  int exit_code = 0;
};

void AddInitCommand(CLI::App& app, CommandLine& line) {
  auto* init = app.add_subcommand("init", "make the directory of a new run");
  init->add_option("dir", line.init.directory, "of the new run")->required();
  init->add_option("--config", line.init.config_file, "run.toml to copy; default: a template");
  auto* recipe = init->add_option("--template", line.init.template_name,
                                  "size of the model: " + absl::StrJoin(TemplateNames(), ", "));
  recipe->excludes(init->get_option("--config"));
  init->add_option("--data", line.init.texts,
                   "text to train on: files (plain, .gz, .zst, JSON lines) and directories");
  init->add_option("--shards", line.init.shards, "or: a directory made by 'data prepare'");
  init->add_option(
      "--from", line.init.from,
      "begin with a checkpoint of the run in this directory, or with the model of this "
      "Hugging Face directory");
  init->add_option("--tokenizer", line.init.tokenizer,
                   "of the texts: tokenizer.json or a SentencePiece .model; default: that of the "
                   "model begun with, else bytes");
  init->add_flag("--new-tokenizer", line.init.new_tokenizer,
                 "train a model on tokens that are not its own");
  init->add_option("--checkpoint", line.init.generation, "of which generation; default: the newest")
      ->check(CLI::PositiveNumber);
  init->add_option("--store", line.init.store,
                   "of the journal: sqlite: (default) or postgresql://user@host/database");
  init->add_option("--standby-of", line.init.standby_of,
                   "stand by for the run in this directory, whose store is PostgreSQL");
  init->add_option("--checkpoints", line.init.checkpoints,
                   "where checkpoints go, as a disk that both share; default: the directory");
  init->callback([&] {
    const absl::Status made = InitRunDirectory(line.init);
    if (made.ok())
      std::cout << ConfigNote(line.init.directory) << AfterInit(line.init.directory) << "\n";
    line.exit_code = Ended(made);
  });
}

void AddRunCommands(CLI::App& app, CommandLine& line) {
  AddInitCommand(app, line);
  auto* ticket = app.add_subcommand("ticket", "print a ticket for volunteers");
  ticket->add_option("dir", line.ticket.directory, "of the run")->required();
  ticket->add_option("--advertise,--endpoint", line.ticket.endpoint,
                     "where nodes reach you: tcp://host:7700; default: what serve noted");
  ticket->add_option("--uses", line.ticket.uses, "how many nodes it admits")->capture_default_str();
  ticket->add_option("--expires", line.ticket.expires, "lifetime: 90m, 24h, 7d")
      ->capture_default_str();
  ticket->add_flag("--approve", line.ticket.asks,
                   "who brings it waits until you admit it: skerry-coordinator admit DIR NODE");
  ticket->callback([&] { line.exit_code = Ended(PrintTicket(line.ticket)); });

  auto* serve = app.add_subcommand(
      "serve", "run the coordinator, also after a crash; or stand by while another leads");
  serve->add_option("dir", line.serve.directory, "of the run")->required();
  serve->add_option("--bind", line.serve.bind, "address to listen at")->capture_default_str();
  serve->add_option("--advertise", line.serve.advertise,
                    "where nodes reach it, for tickets; default: the bound address");
  serve
      ->add_option("--probes-at-once", line.serve.probes_at_once,
                   "links measured at a time; 0: every disjoint pair of nodes")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  serve->add_option("--shape", line.serve.shape_file, "imitate this network (wan.toml)");
  serve->add_option("--region", line.serve.region, "this process's region in it");
  serve
      ->add_option("--dashboard", line.serve.dashboard,
                   "host:port of the run's web page; none: without; default: 127.0.0.1:7780 or one "
                   "of the next ports")
      ->type_name("ADDRESS");
  serve
      ->add_option("--held-out", line.serve.held_out,
                   "sequences of held-out text over which the loss of each checkpoint, and of the "
                   "finished model, is computed, by skerry-node at the lowest priority; 0: it is "
                   "not; default: of 16384 tokens, where the model is small")
      ->check(CLI::NonNegativeNumber);
  serve->add_option("--push-checkpoints", line.serve.push_checkpoints,
                    "copy each into object storage: s3://BUCKET/PREFIX");
  serve
      ->add_option("--snapshot-every", line.serve.snapshot_every,
                   "journal records between snapshots, from which a restart goes on; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  serve
      ->add_option("--log-format", line.serve.log_format,
                   "text, or json: one object a line, named as OpenTelemetry's")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  serve->callback([&] { line.exit_code = ServeCommand(line.serve); });
}

void AddViewCommands(CLI::App& app, CommandLine& line) {
  auto* watch = app.add_subcommand("watch", "show a run until it is finished");
  watch->add_option("dir", line.directory, "of the run")->required();
  watch->callback([&] { line.exit_code = Ended(Watch(line.directory)); });

  using Printer = absl::Status (*)(const std::string&, bool);
  const auto add = [&](const char* name, const char* what, Printer print) {
    auto* command = app.add_subcommand(name, what);
    command->add_option("dir", line.directory, "of the run")->required();
    command->add_flag("--json", line.json, "for programs");
    command->callback([&line, print] { line.exit_code = Ended(print(line.directory, line.json)); });
  };
  add("status", "show a run once", PrintStatus);
  add("nodes", "list the nodes of a run", PrintNodes);
  add("plan", "show the plan in force", PrintPlan);
  add("audit", "what the journal proves: every sample, contribution and round once", PrintAudit);

  auto* mend = app.add_subcommand("mend", "cut a damaged journal at its last whole record");
  mend->add_option("dir", line.directory, "of the run")->required();
  mend->callback([&] {
    const auto told = MendJournal(line.directory);
    if (told.ok()) std::cout << *told << "\n";
    line.exit_code = Ended(told.status());
  });

  auto* report = app.add_subcommand("report", "write report.json and report.html");
  report->add_option("dir", line.directory, "of the run")->required();
  report->add_option("--extra", line.extra, "JSON with evaluation losses and a sample");
  report->add_option("--out", line.out, "where to; default: the run's directory");
  report->callback(
      [&] { line.exit_code = Ended(WriteRunReport(line.directory, line.extra, line.out)); });
}

void AddPreparations(CLI::App& app, CommandLine& line) {
  auto* config = app.add_subcommand("config", "configurations")->require_subcommand(1);
  auto* check = config->add_subcommand("check", "print the effective configuration and its digest");
  check->add_option("file", line.file, "run.toml")->required();
  check->callback([&] { line.exit_code = Ended(CheckConfig(line.file)); });
  auto* data = app.add_subcommand("data", "training data")->require_subcommand(1);
  auto* prepare = data->add_subcommand("prepare", "turn texts into token shards");
  prepare
      ->add_option("text", line.prepare.texts,
                   "files (plain, .gz, .zst, JSON lines, tokens of nanoGPT or llm.c as .bin), "
                   "directories, - for standard input")
      ->required();
  prepare->add_option("--out", line.prepare.out, "directory of the token shards")->required();
  prepare->add_option("--tokenizer", line.prepare.tokenizer,
                      "tokenizer.json, a SentencePiece .model, or the directory of one; default: "
                      "bytes");
  prepare->add_option("--field", line.prepare.field, "of a JSON line")->capture_default_str();
  prepare->add_flag("--jsonl", line.prepare.is_json_lines, "JSON lines, whatever the names say");
  prepare->add_option("--validation", line.prepare.validation_share, "share held out")
      ->capture_default_str()
      ->check(NumberIn(0, 0.5));
  prepare
      ->add_option("--weights", line.prepare.weights,
                   "share of each text in the tokens, everywhere: 7,2,1; one that is over is read "
                   "again")
      ->delimiter(',')
      ->check(NumberIn(0, 1e9));
  prepare->add_option("--passes", line.prepare.passes_max, "at most, over a text with a weight")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  prepare->add_option("--shuffle", line.prepare.shuffle,
                      "documents in an order by chance, of this seed; needs as much disk again");
  prepare->callback([&] { line.exit_code = Ended(PrepareData(line.prepare)); });
  auto* tokenizer =
      data->add_subcommand("tokenizer", "learn a byte-level BPE vocabulary from texts");
  tokenizer->add_option("text", line.tokenizer.texts, "as for prepare")->required();
  tokenizer->add_option("--out", line.tokenizer.out, "tokenizer.json to write")
      ->capture_default_str();
  tokenizer->add_option("--tokens", line.tokenizer.tokens, "of the vocabulary")
      ->capture_default_str();
  tokenizer->add_option("--field", line.tokenizer.field, "of a JSON line")->capture_default_str();
  tokenizer->add_flag("--jsonl", line.tokenizer.is_json_lines,
                      "JSON lines, whatever the names say");
  tokenizer->callback([&] { line.exit_code = Ended(MakeTokenizer(line.tokenizer)); });
  AddStorageCommands(*data, &line.exit_code);
}

const std::vector<CliExample> kExamples = {
    {"init", "init run --data book.txt", "a run in ./run, from a template, to train on that text"},
    {"serve", "serve run --advertise tcp://train.example.org:7700", "serve it to volunteers"},
    {"ticket", "ticket run --uses 10 --expires 7d", "a ticket for ten machines"},
    {"status", "status run --json", "where it stands, for programs"},
    {"watch", "watch run", "the same, again and again, until it is finished"},
    {"nodes", "nodes run", "who is here, with what device, and what it has contributed"},
    {"plan", "plan run", "which node holds which layers, and why"},
    {"explain", "explain run 12", "where the time of round 12 went"},
    {"trace", "trace run --from-step 4000 --to-step 5000 --out trace.json", "for Perfetto"},
    {"audit", "audit run", "whether the journal contradicts itself anywhere"},
    {"mend", "mend run", "after a disk has changed what was written; end the nodes first"},
    {"admission", "admission run --policy approve", "from now on you admit each who comes"},
    {"admit", "admit run 3fa91234", "who waits for it comes in; who was put out may come back"},
    {"deny", "deny run 3fa91234 --why 'wild updates'", "it is put out within a second"},
    {"forget", "forget run 3fa91234", "as if nothing had been said of it"},
    {"evidence", "evidence run 3fa91234", "why it was put out, and in which rounds it differed"},
    {"revoke", "revoke run skerry1-…", "the ticket admits nobody any more"},
    {"pause", "pause run --why 'the power is cut at noon'", "volunteers read why"},
    {"resume", "resume run", "it goes on with the step that it paused before"},
    {"checkpoint", "checkpoint run", "before something that may go wrong"},
    {"export", "export run --out model", "for transformers, also while it trains"},
    {"export", "export run --format gguf --type q8_0", "for llama.cpp"},
    {"config", "config check run/run.toml", "what the file means, with every default"},
    {"data", "data prepare book.txt.gz --out shards", "tokens for several runs"},
    {"data fetch", "data fetch s3://BUCKET/PREFIX --out shards", "a data set that somebody pushed"},
    {"data push", "data push shards s3://BUCKET/PREFIX", "where nodes and other runs find it"},
    {"data address", "data address shards https://data.example.org/shards",
     "nodes fetch its shards there"},
    {"config check", "config check run/run.toml", "what the file means, with every default"},
    {"data prepare", "data prepare book.txt.gz --out shards", "tokens for several runs"},
    {"data prepare", "data prepare --jsonl - --out shards --tokenizer BASE",
     "of what a pipe brings"},
    {"data tokenizer", "data tokenizer books/ --tokens 16000 --out tokenizer.json",
     "a vocabulary of one's own"},
    {"dashboard", "dashboard run", "a run that is over, in a browser"},
    {"checkpoints", "checkpoints run --verify", "which checkpoints are whole"},
    {"compact", "compact run", "a restart need not read what was so far"},
    {"help", "help SK-ticket-expired", "why that comes, and what to do"},
    {"report", "report run --out evening", "report.html and report.json in ./evening"},
};

int Run(int argc, char** argv) {
  CLI::App app{"skerry-coordinator: run one training run across volunteers' machines",
               "skerry-coordinator"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "skerry-coordinator 0.1.0, protocol 1");
  app.footer(
      "exit codes: 0 done, 1 failed (the message says why), 3 another coordinator leads now, 100 "
      "and "
      "above: the command line is wrong, 130 interrupted");
  CommandLine line;
  AddRunCommands(app, line);
  AddViewCommands(app, line);
  AddPreparations(app, line);
  AddAdmissionCommands(app, &line.exit_code);
  AddRunOrderCommands(app, &line.exit_code);
  AddCheckpointCommands(app, &line.exit_code);
  AddDashboardCommand(app, &line.exit_code);
  AddExplainCommand(app, &line.exit_code);
  AddCompactCommand(app, &line.exit_code);
  return RunCommandLine(app, argc, argv, kExamples, &line.exit_code);
}

}  // namespace
}  // namespace skerry

int main(int argc, char** argv) {
  return skerry::Run(argc, argv);
}
