#include "sim/replay_program.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/share_line_program.h"
#include "common/status.h"
#include "sim/replay.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

constexpr int64_t kStepsMax = 96;

struct WhatIf {
  std::string what;
  ReplayFigures figures;
};

struct Told {
  ReplayedRun run;
  ReplayFigures measured, as_probed, baseline;
  std::vector<WhatIf> what_ifs;
};

Json ToJson(const ReplayFigures& figures) {
  return {{"step_s", figures.step_s},
          {"tokens_per_s", figures.tokens_per_s},
          {"round_transfer_s", figures.round_transfer_s},
          {"hidden_fraction", figures.hidden_fraction},
          {"bytes_per_token", figures.bytes_per_token},
          {"planned_anew", figures.planned_anew},
          {"wrong", figures.wrong}};
}

std::string JsonOf(const Told& told) {
  Json what_ifs = Json::array();
  for (const WhatIf& one : told.what_ifs) {
    what_ifs.push_back({{"what", one.what}, {"figures", ToJson(one.figures)}});
    if (told.baseline.step_s > 0)
      what_ifs.back()["step_change"] = one.figures.step_s / told.baseline.step_s - 1;
  }
  const Json out = {{"name", told.run.config.name},
                    {"nodes", told.run.nodes.size()},
                    {"measured", ToJson(told.measured)},
                    {"as_probed", ToJson(told.as_probed)},
                    {"baseline", ToJson(told.baseline)},
                    {"device_share", told.run.device_share},
                    {"what_if", what_ifs},
                    {"notes", told.run.notes}};
  return out.dump(2) + "\n";
}

void PrintRow(const std::string& name, const ReplayFigures& figures, const ReplayFigures* base) {
  if (!figures.wrong.empty() && base != nullptr) {
    std::printf("  %-44s %s\n", name.c_str(), figures.wrong.c_str());
    return;
  }
  const std::string change =
      base == nullptr || base->step_s <= 0
          ? ""
          : absl::StrFormat("%+.1f %%", 100 * (figures.step_s / base->step_s - 1));
  const std::string line = name + (figures.planned_anew ? " *" : "");
  std::printf("  %-44s %9.3f %9s %10.0f %9.2f %8.1f %9.1f\n", line.c_str(), figures.step_s,
              change.c_str(), figures.tokens_per_s, figures.round_transfer_s,
              100 * figures.hidden_fraction, figures.bytes_per_token);
}

void Print(const Told& told, const ReplayProgramOptions& options) {
  std::printf("run %s: %zu nodes, as measured and on virtual time\n\n",
              told.run.config.name.c_str(), told.run.nodes.size());
  std::printf("  %-44s %9s %9s %10s %9s %8s %9s\n", "", "step, s", "change", "tokens/s", "round, s",
              "hidden %", "B/token");
  PrintRow("measured", told.measured, nullptr);
  PrintRow("simulated, devices as probed", told.as_probed, nullptr);
  if (!options.as_probed) {
    PrintRow(absl::StrFormat("simulated, devices at %.0f %% of that", 100 * told.run.device_share),
             told.baseline, nullptr);
  }
  if (!told.what_ifs.empty()) std::printf("\n  what if, against the last line above\n");
  for (const WhatIf& one : told.what_ifs) PrintRow(one.what, one.figures, &told.baseline);
  std::printf("\n");
  if (!options.as_probed) {
    std::printf("  the devices' share is fitted to the measured step; the other figures are not\n");
  }
  std::printf("  * planned anew; else every node holds what it held\n");
  for (const std::string& note : told.run.notes) std::printf("  %s\n", note.c_str());
}

// One line over several simulations, each with its part of the whole.
class Parts {
 public:
  Parts(double all, bool wanted) : all_(all), line_("simulating", wanted) {}
  OnShare Next(double weight) {
    const double before = begun_;
    begun_ += weight;
    return [this, before, weight](double share) { line_.Show((before + weight * share) / all_); };
  }

 private:
  double all_, begun_ = 0;
  ShareLine line_;
};

absl::Status SimulateAll(const ReplayProgramOptions& options, int64_t steps, Told& told) {
  constexpr double kFitWeight = 4;  // most fits are done after so many runs
  const auto changes = static_cast<double>(options.what_ifs.size());
  Parts parts((options.as_probed ? 1 : 2 + kFitWeight) + changes, !options.json);
  told.as_probed = told.baseline = Simulate(told.run, steps, options.seed, parts.Next(1));
  if (!told.as_probed.wrong.empty())
    return FailedPrecondition("the run cannot be simulated: %s", told.as_probed.wrong);
  if (!options.as_probed) {
    told.run.device_share =
        FitDeviceShare(told.run, told.measured.step_s, steps, options.seed, parts.Next(kFitWeight));
    told.baseline = Simulate(told.run, steps, options.seed, parts.Next(1));
  }
  for (const std::string& what : options.what_ifs) {
    SKERRY_ASSIGN_OR_RETURN(const ReplayedRun changed, WithChange(told.run, what));
    told.what_ifs.push_back({what, Simulate(changed, steps, options.seed, parts.Next(1))});
  }
  const bool anew = std::any_of(told.what_ifs.begin(), told.what_ifs.end(),
                                [](const WhatIf& one) { return one.figures.planned_anew; });
  if (!anew) return absl::OkStatus();
  ReplayedRun same = told.run;  // what those are to be compared with
  same.other_nodes = true;
  told.what_ifs.insert(told.what_ifs.begin(),
                       {"nothing but a new plan", Simulate(same, steps, options.seed)});
  return absl::OkStatus();
}

}  // namespace

CLI::App* AddReplayCommand(CLI::App& app, ReplayProgramOptions& options) {
  CLI::App* command = app.add_subcommand("replay", "a real run again on virtual time, and what if");
  command
      ->add_option("directory", options.directory,
                   "of a coordinator's run, or the output of an emulation")
      ->required();
  command
      ->add_option("--what-if", options.what_ifs,
                   "add-node:REGION:GFLOPS, add-node:like:ID, remove-node:ID, "
                   "set:SECTION.KEY=VALUE, link:A-B:mbps=X,rtt_ms=Y; several at once with ';'")
      ->allow_extra_args(false);
  command->add_option("--steps", options.steps, "simulated; 0: the run's, at most 96")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000));
  command->add_option("--seed", options.seed, "of chance")->capture_default_str();
  command->add_flag("--as-probed", options.as_probed,
                    "devices work as fast as their probe said, not as the measured step says");
  command->add_flag("--shared-lines", options.shared_lines,
                    "all flows of a node share a line as fast as its fastest measured flow");
  command->add_flag("--json", options.json, "for programs");
  return command;
}

absl::Status RunReplay(const ReplayProgramOptions& options) {
  Told told;
  SKERRY_ASSIGN_OR_RETURN(told.run, LoadReplayedRun(options.directory));
  told.run.shared_lines = options.shared_lines;
  const int64_t steps =
      options.steps > 0 ? options.steps : std::min(told.run.config.steps, kStepsMax);
  // Before the first run, so that a mistake in the last one costs no time.
  for (const std::string& what : options.what_ifs)
    SKERRY_RETURN_IF_ERROR(WithChange(told.run, what).status());
  told.measured = FiguresOf(told.run.report);
  SKERRY_RETURN_IF_ERROR(SimulateAll(options, steps, told));
  if (options.json) {
    std::fputs(JsonOf(told).c_str(), stdout);
  } else {
    Print(told, options);
  }
  return absl::OkStatus();
}

}  // namespace skerry
