// skerry-sim: emulates wide-area networks, on virtual time or with real processes.

#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>

#include "common/cli_numbers_program.h"
#include "common/cli_program.h"
#include "common/status.h"
#include "sim/compare_program.h"
#include "sim/emulator.h"
#include "sim/large_pages.h"
#include "sim/packet/packet_platform.h"
#include "sim/plan_program.h"
#include "sim/replay_program.h"
#include "sim/run_program.h"
#include "sim/scenario_summary.h"
#include "sim/soak_program.h"
#include "sim/swarm_program.h"

namespace {

volatile bool interrupted = false;

void OnSignal(int) {
  interrupted = true;
}

// For those that end processes or keep what they have: all others end by the signal, at once.
const volatile bool& Interrupted() {
  signal(SIGINT, OnSignal);
  signal(SIGTERM, OnSignal);
  return interrupted;
}

std::string OwnDirectory() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

}  // namespace

namespace skerry {
namespace {

// Everything the command line can say; one per process.
struct CommandLine {
  EmulateOptions emulate;
  PlanOptions plan;
  RunScenarioOptions run;
  SwarmOptions swarm;
  CompareProgramOptions compare;
  ReplayProgramOptions replay;
  SoakProgramOptions soak;
  bool probe = false;  // emulate --probe
  std::string checked;
  uint64_t seed = 1;
  absl::Status status;
};

void AddEmulate(CLI::App& app, CommandLine& line) {
  EmulateOptions& emulate = line.emulate;
  emulate.out_dir = "demo-out";
  emulate.programs_dir = OwnDirectory();
  CLI::App* command = app.add_subcommand("emulate", "real processes over shaped links");
  command->add_option("scenario", emulate.scenario, "scenario.toml or its directory");
  command->add_option("--out", emulate.out_dir, "where everything goes")->capture_default_str();
  command->add_flag("--reference", emulate.reference,
                    "also train the same model in one process on the same tokens");
  command->add_option("--seed", emulate.seed, "instead of the run's own");
  command->add_option("--steps", emulate.steps, "inner steps, instead of the run's own")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--checkpoints", emulate.checkpoints,
                   "rounds between checkpoints, of each of which the loss on held-out text is "
                   "shown; instead of the run's own")
      ->check(CLI::NonNegativeNumber);
  const std::map<std::string, EmulateShaper> shapers = {{"inprocess", EmulateShaper::kInProcess},
                                                        {"packets", EmulateShaper::kPackets},
                                                        {"auto", EmulateShaper::kAuto}};
  command
      ->add_option("--shaper", emulate.shaper,
                   "inprocess: anywhere, no TCP effects; packets: the kernel's TCP between "
                   "namespaces; auto: packets where possible")
      ->transform(CLI::CheckedTransformer(shapers).description(""))
      ->type_name("inprocess|packets|auto")
      ->default_str("inprocess");
  command->add_flag("--probe", line.probe, "say what this machine allows, and end");
  command->callback([&] {
    if (line.probe) {
      std::fputs(Describe(ProbePacketPlatform()).c_str(), stdout);
    } else if (line.emulate.scenario.empty()) {
      line.status = InvalidArgument("emulate: want a scenario, or --probe");
    } else {
      line.status = Emulate(line.emulate, Interrupted());
    }
  });
}

void AddRun(CLI::App& app, CommandLine& line) {
  RunScenarioOptions& run = line.run;
  CLI::App* command = app.add_subcommand("run", "a scenario on virtual time, checked");
  command->add_option("scenario", run.scenario, "scenario.toml or its directory")->required();
  command->add_option("--seed", run.seed, "of chance, churn and the network")
      ->capture_default_str();
  command->add_flag("--real-math", run.real_math,
                    "train a tiny model of as many layers for real, at the scenario's times");
  command->add_flag("--twice", run.twice, "run again; the traces must be equal");
  command->add_flag("--json", run.json, "for programs");
  command->add_option("--trace", run.trace, "write a Chrome trace of every device here");
  command->add_option("--out", run.out_dir,
                      "write events.jsonl, report.json, report.html, simulation.html here");
  command->add_option("--report", run.report, "write one page of pictures here");
  command->add_option("--gantt-step", run.gantt_step, "inner step where its Gantt begins")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--set", run.changes, "SECTION.KEY=VALUE of the run's configuration")
      ->allow_extra_args(false);
  command->callback([&] { line.status = RunScenario(line.run); });
}

void AddPlan(CLI::App& app, CommandLine& line) {
  AddPlanCommand(app, line.plan)->callback([&] { line.status = RunPlan(line.plan); });
}

absl::Status PrintSummary(const CommandLine& line) {
  SKERRY_ASSIGN_OR_RETURN(const Scenario scenario, LoadScenario(line.checked));
  std::fputs(SummaryOf(scenario, line.seed).c_str(), stdout);
  return absl::OkStatus();
}

void AddLookups(CLI::App& app, CommandLine& line) {
  CLI::App* check = app.add_subcommand("check", "read a scenario and say what was understood");
  check->add_option("scenario", line.checked, "scenario.toml or its directory")->required();
  check->add_option("--seed", line.seed, "of the churn it draws")->capture_default_str();
  check->callback([&] { line.status = PrintSummary(line); });
  app.add_subcommand("devices", "the catalogue that scenarios name cards from")->callback([] {
    std::fputs(DeviceTable().c_str(), stdout);
  });
}

void AddSwarm(CLI::App& app, CommandLine& line) {
  SwarmOptions& swarm = line.swarm;
  CLI::App* command = app.add_subcommand(
      "swarm", "random runs with random faults on virtual time, until one fails");
  command->add_option("--first", swarm.first, "seed to begin with")->capture_default_str();
  command->add_option("--seeds", swarm.seeds, "how many")
      ->check(CLI::PositiveNumber)
      ->default_str("100; no limit with --minutes or --rounds");
  CLI::Option* storm = command->add_flag(
      "--storm", swarm.storm, "sixteen nodes, a fault every 1.25 s for ten minutes, in every seed");
  command->add_flag("--numbers", swarm.numbers,
                    "of --storm: with real arithmetic, all rounds sharded, nobody lies");
  command->add_flag("--false-sums", swarm.false_sums,
                    "of --storm: as --numbers, but one node falsifies what it sums");
  command->add_flag(
      "--false-work", swarm.false_work,
      "of --storm: as --numbers, but one node passes on what comes instead of working");
  command->add_flag("--few-introduced", swarm.introduces_few,
                    "nodes are told only of whom they need, as in large fleets");
  CLI::Option* grid =
      command->add_flag("--grid", swarm.grid, "every kind of fault while every phase is under way");
  command->add_option("--rounds", swarm.rounds, "go on until so many faulted rounds were frozen")
      ->check(CLI::PositiveNumber);
  command
      ->add_option(
          "--draw", swarm.draw,
          "what seeds mean, 1 to 24 as in sim/swarm.h: what a seed once drew it draws for ever")
      ->capture_default_str()
      ->excludes(storm)  // which are draws
      ->excludes(grid);
  command->add_option("--jobs", swarm.jobs, "runs at a time")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--hashes", swarm.hashes, "write every seed's trace hash here");
  command->add_option("--minutes", swarm.minutes, "stop after so much real time")
      ->check(NumberIn(0.001, 1e6));
  command->add_flag("--twice", swarm.twice, "each seed twice; the traces must be equal");
  command->add_flag("--keep-going", swarm.keep_going, "after a seed that is wrong");
  command->add_flag("--events", swarm.events, "print what happens in the first seed, and end");
  command->add_flag("--messages", swarm.messages, "the same, with every message");
  command->callback([&] {
    static const volatile bool kNever = false;
    const bool prints = line.swarm.events || line.swarm.messages;
    line.status = Swarm(line.swarm, prints ? kNever : Interrupted());
  });
}

void AddCompare(CLI::App& app, CommandLine& line) {
  AddCompareCommand(app, line.compare)->callback([&] { line.status = RunCompare(line.compare); });
}

void AddReplay(CLI::App& app, CommandLine& line) {
  AddReplayCommand(app, line.replay)->callback([&] { line.status = RunReplay(line.replay); });
}

void AddSoak(CLI::App& app, CommandLine& line) {
  line.soak.soak.programs_dir = OwnDirectory();
  AddSoakCommand(app, line.soak)->callback([&] {
    line.status = RunSoak(line.soak, Interrupted());
  });
}

const std::vector<CliExample> kExamples = {
    {"plan", "plan sim/scenarios/homes36",
     "where the planner puts which layers, and how near that is to a bound"},
    {"run", "run sim/scenarios/homes36 --seed 2", "the scenario on virtual time, checked"},
    {"emulate", "emulate sim/scenarios/three_regions",
     "a scenario with real processes over shaped links"},
    {"compare", "compare sim/scenarios/homes36", "strategies side by side"},
    {"replay", "replay run", "a run that was, again, and what if"},
    {"check", "check sim/scenarios/homes36",
     "its nodes, regions, links and faults, as they were understood"},
    {"devices", "devices", "names for [[nodes]] device"},
    {"soak", "soak --minutes 30 --seed 7", "half an hour of kills, cuts and full disks"},
    {"help", "help emulate", "the options of emulate"},
    {"swarm", "swarm --storm --seeds 20", "faults drawn from seeds"},
};

int Run(int argc, char** argv) {
  CLI::App app{"skerry-sim: training runs over wide-area networks, emulated and simulated",
               "skerry-sim"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "skerry-sim 0.1.0");
  app.footer(
      "exit codes: 0 done, 1 failed (the message says why), 100 and above: the command line is "
      "wrong, 130 interrupted");
  CommandLine line;
  AddRun(app, line);
  AddPlan(app, line);
  AddEmulate(app, line);
  AddLookups(app, line);
  AddSwarm(app, line);
  AddCompare(app, line);
  AddReplay(app, line);
  AddSoak(app, line);
  const int done = 0;
  const int parsed = RunCommandLine(app, argc, argv, kExamples, &done);
  if (parsed != 0 || line.status.ok()) return parsed;
  const int failed = EndedWith("skerry-sim", line.status);
  return interrupted ? 130 : failed;
}

}  // namespace
}  // namespace skerry

int main(int argc, char** argv) {
  skerry::UseLargePages();
  return skerry::Run(argc, argv);
}
