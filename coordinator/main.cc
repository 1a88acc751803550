// skerry-coordinator: what an operator runs for a training run.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "common/status.h"
#include "coordinator/report.h"
#include "coordinator/run_directory.h"
#include "coordinator/screen.h"
#include "coordinator/serve_program.h"
#include "wire/config.h"
#include "wire/identity.h"
#include "wire/ticket.h"

namespace skerry {
namespace {

int Ended(const absl::Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "skerry-coordinator: %s\n", ErrorText(status).c_str());
  return 1;
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
  if (digits == 0 || digits > kDigitsMax || !seconds.contains(unit)) {
    return InvalidArgument("--expires: want a number with s, m, h or d, as in 24h; got '%s'", text);
  }
  return std::stoll(text.substr(0, digits)) * seconds.at(unit);
}

struct TicketRequest {
  std::string directory, endpoint, expires = "24h";
  uint32_t uses = 1;
};

absl::Status PrintTicket(const TicketRequest& request) {
  SKERRY_ASSIGN_OR_RETURN(const OpenedRun run, OpenRunDirectory(request.directory));
  SKERRY_ASSIGN_OR_RETURN(const Identity identity,
                          Identity::Load(run.directory.File("coordinator.key")));
  SKERRY_ASSIGN_OR_RETURN(const int64_t lifetime, ParseLifetime(request.expires));
  SKERRY_ASSIGN_OR_RETURN(const std::string text,
                          IssueTicket(identity, {request.endpoint, run.run,
                                                 std::time(nullptr) + lifetime, request.uses}));
  std::printf("%s\n", text.c_str());
  return absl::OkStatus();
}

absl::Status PrintStatus(const std::string& directory, bool json) {
  std::ifstream in(RunDirectory{directory}.File("status.json"));
  const auto status = nlohmann::json::parse(in, nullptr, false);
  if (!status.is_object()) {
    return NotFound("%s was never served; start it: skerry-coordinator serve %s", directory,
                    directory);
  }
  std::cout << (json ? status.dump(2) + "\n" : StatusScreen(status));
  return absl::OkStatus();
}

absl::Status CheckConfig(const std::string& file) {
  SKERRY_ASSIGN_OR_RETURN(const RunConfig config, LoadRunConfig(file));
  std::cout << FormatRunConfig(config) << "# digest " << ConfigDigest(config).Hex() << "\n";
  return absl::OkStatus();
}

absl::Status WriteRunReport(const std::string& directory, const std::string& extra,
                            const std::string& out) {
  std::optional<std::filesystem::path> extra_file;
  if (!extra.empty()) extra_file = extra;
  SKERRY_ASSIGN_OR_RETURN(const RunReport report,
                          BuildReport({RunDirectory{directory}.File("events.jsonl")}, extra_file));
  return WriteReport(report, out.empty() ? directory : out);
}

int Run(int argc, char** argv) {
  CLI::App app{"skerry-coordinator: run one training run across volunteers' machines"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "skerry-coordinator 0.1.0, protocol 1");
  app.footer("exit codes: 0 done, 1 failed (the message says why), 130 interrupted");
  int exit_code = 0;

  InitOptions init;
  auto* init_command = app.add_subcommand("init", "make the directory of a new run");
  init_command->add_option("dir", init.directory)->required();
  init_command->add_option("--config", init.config_file, "run.toml to copy; default: a template");
  init_command->add_option("--data", init.texts, "text to train on (plain, .gz, .dz)");
  init_command->add_option("--shards", init.shards, "or: a directory made by 'data prepare'");
  init_command->callback([&] { exit_code = Ended(InitRunDirectory(init)); });

  TicketRequest ticket;
  auto* ticket_command = app.add_subcommand("ticket", "print a ticket for volunteers");
  ticket_command->add_option("dir", ticket.directory)->required();
  ticket_command
      ->add_option("--endpoint", ticket.endpoint, "where nodes reach you: tcp://host:7700")
      ->required();
  ticket_command->add_option("--uses", ticket.uses, "how many nodes it admits")
      ->capture_default_str();
  ticket_command->add_option("--expires", ticket.expires, "lifetime: 90m, 24h, 7d")
      ->capture_default_str();
  ticket_command->callback([&] { exit_code = Ended(PrintTicket(ticket)); });

  ServeOptions serve;
  auto* serve_command = app.add_subcommand("serve", "run the coordinator; also after a crash");
  serve_command->add_option("dir", serve.directory)->required();
  serve_command->add_option("--bind", serve.bind, "address to listen at")->capture_default_str();
  serve_command->add_option("--shape", serve.shape_file, "imitate this network (wan.toml)");
  serve_command->add_option("--region", serve.region, "this process's region in it");
  serve_command->callback([&] {
    const auto served = Serve(serve);
    exit_code = served.ok() ? *served : Ended(served.status());
  });

  std::string directory, extra, out, file;
  bool json = false;
  auto* watch = app.add_subcommand("watch", "show a run until it is finished");
  watch->add_option("dir", directory)->required();
  watch->callback([&] { exit_code = Ended(Watch(directory)); });
  auto* status = app.add_subcommand("status", "show a run once");
  status->add_option("dir", directory)->required();
  status->add_flag("--json", json);
  status->callback([&] { exit_code = Ended(PrintStatus(directory, json)); });
  auto* report = app.add_subcommand("report", "write report.json and report.html");
  report->add_option("dir", directory)->required();
  report->add_option("--extra", extra, "JSON with evaluation losses and a sample");
  report->add_option("--out", out, "where to; default: the run's directory");
  report->callback([&] { exit_code = Ended(WriteRunReport(directory, extra, out)); });

  auto* config = app.add_subcommand("config", "configurations")->require_subcommand(1);
  auto* check = config->add_subcommand("check", "print the effective configuration and its digest");
  check->add_option("file", file)->required();
  check->callback([&] { exit_code = Ended(CheckConfig(file)); });
  std::vector<std::string> texts;
  auto* data = app.add_subcommand("data", "training data")->require_subcommand(1);
  auto* prepare = data->add_subcommand("prepare", "turn a text into token shards");
  prepare->add_option("text", texts)->required();
  prepare->add_option("--out", out)->required();
  prepare->callback([&] { exit_code = Ended(PrepareData(texts, out)); });

  CLI11_PARSE(app, argc, argv);
  return exit_code;
}

}  // namespace
}  // namespace skerry

int main(int argc, char** argv) {
  return skerry::Run(argc, argv);
}
