// Is the emulation right, and is the simulation like it? Packet emulation against the clock, then
// sim/flow_network.h and whole simulated runs against the kernel's TCP through packet emulation.
//
//   bench_fidelity [--quick] [--verbose] [--only accuracy|transfers|sharing|loss|runs] [--json
//   FILE]
//
// Wants a machine with nothing else to do, and root or user namespaces.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>

#include "bench/emulated_run.h"
#include "bench/fidelity.h"
#include "bench/real_transfers.h"
#include "common/status.h"

namespace skerry::bench {

void CheckShaper(Bench& bench, PacketWorld& world, const std::string& during) {
  const HubReport report = world.hub().TakeReport();
  bench.AtMost("shaper's lateness p99, " + during, report.lateness.Quantile(0.99).millis(), "ms",
               kLatenessMax.millis());
  if (const absl::Status verdict = report.Verdict(); !verdict.ok())
    std::printf("  %s\n", ErrorText(verdict).c_str());
}

void Errors::Add(const std::string& cell, double simulated, double real) {
  const double error = std::abs(simulated - real) / real;
  if (verbose_) {
    std::printf("  %-44s simulated %8.4f real %8.4f  %+6.1f %%\n", cell.c_str(), simulated, real,
                100 * (simulated - real) / real);
  }
  sum_ += error;
  ++count_;
  if (error <= most_) return;
  most_ = error;
  worst_ = absl::StrFormat("%s: simulated %.4f s, real %.4f s", cell, simulated, real);
}

}  // namespace skerry::bench

int main(int argc, char** argv) {
  using namespace skerry::bench;
  FidelityOptions options;
  options.programs_dir = ProgramsDirectory();
  std::string only;
  std::vector<char*> rest;
  for (int i = 0; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--quick") {
      options.quick = true;
    } else if (argument == "--verbose") {
      options.verbose = true;
    } else if (argument == "--only" && i + 1 < argc) {
      only = argv[++i];
    } else {
      rest.push_back(argv[i]);
    }
  }
  Bench bench("fidelity", static_cast<int>(rest.size()), rest.data());
  const std::vector<std::pair<std::string, void (*)(Bench&, const FidelityOptions&)>> parts = {
      {"accuracy", BenchAccuracy},
      {"transfers", BenchTransfers},
      {"sharing", BenchSharing},
      {"loss", BenchLoss},
      {"runs", BenchRuns}};
  const auto platform = skerry::ProbePacketPlatform();
  MustBeOk(platform.Best().status());
  const double start = WallSeconds();
  for (const auto& [name, part] : parts) {
    if (only.empty() || only == name) part(bench, options);
  }
  bench.Record("time this took", WallSeconds() - start, "s");
  return bench.Finish();
}
