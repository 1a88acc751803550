#include "coordinator/explain_program.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "common/cli_program.h"
#include "common/share_line_program.h"
#include "common/status.h"
#include "coordinator/explain.h"
#include "coordinator/journal_store.h"
#include "coordinator/run_trace.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

struct ExplainOptions {
  std::string directory;
  int64_t number = -1, step = -1;
  bool json = false;
};

// The traced step nearest to `wanted`; the last one without. Null: there is none.
std::unique_ptr<TracedStep> NearestTrace(const fs::path& log, std::optional<int64_t> wanted) {
  std::ifstream in(log);
  std::unique_ptr<TracedStep> nearest;
  for (std::string line; std::getline(in, line);) {
    if (line.find("\"kind\":\"trace\"") == std::string::npos) continue;
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_discarded()) continue;
    const int64_t step = event.value("step", int64_t{0});
    if (nearest && wanted && std::abs(step - *wanted) > std::abs(nearest->step - *wanted)) continue;
    nearest = std::make_unique<TracedStep>(TraceOf(event));
  }
  return nearest;
}

struct TraceOptions {
  std::string directory, out = "-";
  TraceWindow window;
};

// Where a trace is written until it is whole, so that none replaces one that is there; a device or
// pipe is written at once.
struct TraceFile {
  fs::path to, partial;
  std::ofstream out;
};

absl::StatusOr<std::unique_ptr<TraceFile>> OpenTraceFile(const std::string& path) {
  auto file = std::make_unique<TraceFile>();
  std::error_code none;
  file->to = fs::exists(path, none) ? fs::canonical(path, none) : fs::path(path);
  file->partial = file->to;
  if (!fs::exists(path, none) || fs::is_regular_file(path, none)) file->partial += ".partial";
  errno = 0;
  file->out.open(file->partial, std::ios::binary | std::ios::trunc);
  if (file->out) return file;
  return Unavailable("%s: cannot be written: %s [SK-disk-write]", path, std::strerror(errno));
}

absl::Status Trace(const TraceOptions& options) {
  if (options.window.first_step > options.window.last_step) {
    return InvalidArgument("--from-step %d is after --to-step %d", options.window.first_step,
                           options.window.last_step);
  }
  SKERRY_ASSIGN_OR_RETURN(const fs::path log, EventLogOf(options.directory));
  std::ifstream in(log, std::ios::binary);
  if (!in) return Unavailable("%s: cannot be read [SK-config-file]", log.string());
  std::unique_ptr<TraceFile> file;
  if (options.out != "-") {
    SKERRY_ASSIGN_OR_RETURN(file, OpenTraceFile(options.out));
  }
  std::error_code none;
  const auto size = static_cast<int64_t>(fs::file_size(log, none));
  ShareLine line("reading the events");
  const auto steps = WriteRunTrace(in, options.window, file ? file->out : std::cout,
                                   [&](int64_t read) { line.Show(read, size); });
  line.End();
  const bool is_apart = file && file->partial != file->to;
  if (is_apart && (!steps.ok() || *steps == 0)) fs::remove(file->partial, none);
  if (!steps.ok()) {
    const bool is_of_log = absl::IsInvalidArgument(steps.status());
    return Annotate(steps.status(), is_of_log ? log.string() : options.out);
  }
  if (*steps == 0) {
    return NotFound(
        "%s: no step of that window was traced; nodes trace one step of each round "
        "[SK-explain-nothing]",
        log.string());
  }
  std::error_code error;
  if (is_apart) fs::rename(file->partial, file->to, error);
  if (error) return Unavailable("%s: %s [SK-disk-write]", options.out, error.message());
  if (file) {
    std::cerr << *steps << " steps in " << options.out
              << "; open it in https://ui.perfetto.dev or chrome://tracing\n";
  }
  return absl::OkStatus();
}

absl::Status Explain(const ExplainOptions& options) {
  SKERRY_ASSIGN_OR_RETURN(const fs::path log, EventLogOf(options.directory));
  ShareLine line("reading the events");
  SKERRY_ASSIGN_OR_RETURN(
      const RunReport report,
      BuildReport({log}, std::nullopt, [&line](double share) { line.Show(share); }));
  line.End();
  Question question;
  if (options.number >= 0) question.round = options.number;
  if (options.step >= 0) question.step = options.step;
  std::optional<int64_t> wanted = question.step;
  const int64_t inner_steps = std::max<int64_t>(1, report.outer.inner_steps);
  if (!wanted && question.round) wanted = *question.round * inner_steps + inner_steps / 2;
  const auto trace = NearestTrace(log, wanted);
  SKERRY_ASSIGN_OR_RETURN(const std::string text, ExplainText(report, trace.get(), question));
  if (options.json) {
    std::cout << ExplainJson(report, trace.get(), question).dump(2) << "\n";
  } else {
    std::cout << text;
  }
  return absl::OkStatus();
}

void AddTraceCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<TraceOptions>();
  auto* command = app.add_subcommand(
      "trace", "what every device did in the traced steps, for Perfetto or chrome://tracing");
  command->add_option("dir", options->directory, "of a run")->required();
  command->add_option("--from-step", options->window.first_step, "default: the first")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--to-step", options->window.last_step, "default: the last")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--out", options->out, "a file; default: standard output");
  command->callback(
      [options, exit_code] { *exit_code = EndedWith("skerry-coordinator", Trace(*options)); });
}

}  // namespace

absl::StatusOr<fs::path> EventLogOf(const std::string& directory) {
  for (const fs::path& place : {fs::path(directory), fs::path(directory) / "run"}) {
    if (fs::exists(place / "events.jsonl")) return place / "events.jsonl";
  }
  SKERRY_RETURN_IF_ERROR(StoreOf(directory).status());
  return NotFound("%s was never served; start it: skerry-coordinator serve %s [SK-run-unserved]",
                  directory, directory);
}

void AddExplainCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<ExplainOptions>();
  auto* command = app.add_subcommand(
      "explain", "where the time of a step and its round went, and what would have helped most");
  command->add_option("dir", options->directory, "of a run")->required();
  command->add_option("round", options->number, "default: the newest")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--step", options->step, "instead of a round")->check(CLI::NonNegativeNumber);
  command->add_flag("--json", options->json, "for programs");
  command->callback([options, exit_code] {
    const absl::Status status = Explain(*options);
    *exit_code = EndedWith("skerry-coordinator", status);
  });
  AddTraceCommand(app, exit_code);
}

}  // namespace skerry
