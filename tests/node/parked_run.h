// A node that is offered just so much memory that five of its eight stashes lie on a disk, by the
// real programs.
#pragma once

#include "pipeline/plan/node_memory.h"
#include "tests/model/disk_directory.h"
#include "tests/node/small_run.h"
#include "wire/config.h"

namespace skerry {

// A window of eight, all of which are under way at once; no layer may be recomputed.
inline std::string WideRun() {
  std::string run = kSmallRun;
  for (const std::string line : {"microbatches_per_step = ", "in_flight = "}) {
    run.replace(run.find(line) + line.size(), 1, "8");
  }
  return run + "recompute = \"never\"\n";
}

struct ParkedRun {
  DiskDirectory disk;
  SmallRun here{"", WideRun()};

  // That it takes; with a host beside its devices, or without.
  NodeMemory Needs(int32_t parked, bool has_host) const {
    const RunConfig config = *LoadRunConfig(here.Path("run.toml"));
    StageHolds holds = HoldsOf(config, 1, 1, true);
    REQUIRE(holds.microbatches == 8);
    holds.parked = parked;
    holds.on_disk = has_host && parked > 0;
    return MemoryIn(config, 2, true, holds, {1, has_host ? 1 : 0});
  }
  // `join` says what it offers, `plan` is what the coordinator says of the plan, `alone` the device
  // that makes the same model by itself.
  void Check(std::vector<std::string> join, const std::string& plan, const std::string& alone) {
    join.insert(join.end(), {"--spill", disk.path(), "--spill-space", "0.25"});
    const std::string said = here.Train(join);
    INFO(said);
    CHECK(said.find("offers the disk for activations") != std::string::npos);
    CHECK(said.find("parked_stashes 5") != std::string::npos);
    CHECK(fs::is_empty(disk.path()));
    const std::string planned = here.Run({"skerry-coordinator", "plan", here.Path("run")});
    INFO(planned);
    CHECK(planned.find(plan) != std::string::npos);
    here.Reference(alone, "alone");
    CHECK(here.Weights("run/model") == here.Weights("alone"));
  }
};

}  // namespace skerry
