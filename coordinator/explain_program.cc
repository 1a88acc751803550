#include "coordinator/explain_program.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "common/cli_program.h"
#include "common/status.h"
#include "coordinator/explain.h"

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

absl::Status Explain(const ExplainOptions& options) {
  fs::path log = fs::path(options.directory) / "events.jsonl";
  if (!fs::exists(log)) log = fs::path(options.directory) / "run" / "events.jsonl";
  SKERRY_ASSIGN_OR_RETURN(const RunReport report, BuildReport({log}, std::nullopt));
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

}  // namespace

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
}

}  // namespace skerry
