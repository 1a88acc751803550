// skerry-sim: plans for wide-area networks and emulates them.

#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "sim/emulator.h"
#include "sim/plan_program.h"

namespace {

volatile bool interrupted = false;

void OnSignal(int) {
  interrupted = true;
}

std::string OwnDirectory() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"skerry-sim: plan or emulate a training run over a wide-area network"};
  app.require_subcommand(1);
  app.footer("exit codes: 0 done, 1 failed (the message says why), 130 interrupted");

  skerry::EmulateOptions emulate;
  emulate.out_dir = "demo-out";
  emulate.programs_dir = OwnDirectory();
  CLI::App* command = app.add_subcommand("emulate", "real processes over links shaped in-process");
  command->add_option("scenario", emulate.scenario, "scenario.toml or its directory")->required();
  command->add_option("--out", emulate.out_dir, "where everything goes")->capture_default_str();
  command->add_flag("--reference", emulate.reference,
                    "also train the same model in one process on the same tokens");
  command->add_option("--seed", emulate.seed, "instead of the run's own");
  command->add_option("--steps", emulate.steps, "inner steps, instead of the run's own");
  skerry::PlanOptions plan;
  CLI::App* planning = skerry::AddPlanCommand(app, plan);
  CLI11_PARSE(app, argc, argv);

  signal(SIGINT, OnSignal);
  signal(SIGTERM, OnSignal);
  const absl::Status status =
      planning->parsed() ? skerry::RunPlan(plan) : skerry::Emulate(emulate, interrupted);
  if (status.ok()) return 0;
  std::fprintf(stderr, "skerry-sim: %s\n", std::string(status.message()).c_str());
  return interrupted ? 130 : 1;
}
