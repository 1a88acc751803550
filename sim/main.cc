// skerry-sim: emulates wide-area networks, on virtual time or with real processes.

#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "sim/emulator.h"
#include "sim/scenario_summary.h"

namespace {

volatile bool interrupted = false;

void OnSignal(int) {
  interrupted = true;
}

std::string OwnDirectory() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

int Check(const std::string& path, uint64_t seed) {
  const auto scenario = skerry::LoadScenario(path);
  if (!scenario.ok()) {
    std::fprintf(stderr, "skerry-sim: %s\n", std::string(scenario.status().message()).c_str());
    return 1;
  }
  std::fputs(skerry::SummaryOf(*scenario, seed).c_str(), stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"skerry-sim: emulate a training run over a wide-area network on this machine"};
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
  std::string checked;
  uint64_t seed = 1;
  CLI::App* check = app.add_subcommand("check", "read a scenario and say what was understood");
  check->add_option("scenario", checked, "scenario.toml or its directory")->required();
  check->add_option("--seed", seed, "of the churn it draws")->capture_default_str();
  CLI::App* devices = app.add_subcommand("devices", "the catalogue that scenarios name cards from");
  CLI11_PARSE(app, argc, argv);

  if (check->parsed()) return Check(checked, seed);
  if (devices->parsed()) {
    std::fputs(skerry::DeviceTable().c_str(), stdout);
    return 0;
  }
  signal(SIGINT, OnSignal);
  signal(SIGTERM, OnSignal);
  const absl::Status status = skerry::Emulate(emulate, interrupted);
  if (status.ok()) return 0;
  std::fprintf(stderr, "skerry-sim: %s\n", std::string(status.message()).c_str());
  return interrupted ? 130 : 1;
}
