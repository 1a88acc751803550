// A node with little memory and a disk is given a stage that its memory does not hold, and trains
// it, by the real programs.
#include "kernels/stash_store.h"
#include "pipeline/plan/node_memory.h"
#include "tests/model/disk_directory.h"
#include "tests/node/small_run.h"
#include "wire/config.h"

namespace skerry {
TEST_CASE("Spill run: the disk holds what memory does not, and the model has the same bits",
          "[spill][processes]") {
  const DiskDirectory disk;
  const SmallRun here("", WideRun());
  const auto config = *LoadRunConfig(here.Path("run.toml"));
  StageHolds holds = HoldsOf(config, 1, 1, true);
  REQUIRE(holds.microbatches == 8);
  const int64_t all = MemoryIn(config, 2, true, holds, {1}).each.needed();
  holds.parked = 5;
  const int64_t offered = MemoryIn(config, 2, true, holds, {1}).each.needed();
  REQUIRE(offered < all);
  const std::string said =
      here.Train({"--memory", GibText(offered), "--spill", disk.path(), "--spill-space", "0.25"});
  INFO(said);
  CHECK(said.find("offers the disk for activations") != std::string::npos);
  CHECK(said.find("parked_stashes 5") != std::string::npos);
  CHECK(fs::is_empty(disk.path()));
  const std::string plan = here.Run({"skerry-coordinator", "plan", here.Path("run")});
  INFO(plan);
  CHECK(plan.find("5 stashes parked") != std::string::npos);
  here.Reference("cpu", "alone");
  CHECK(here.Weights("run/model") == here.Weights("alone"));
}

TEST_CASE("Spill run: a directory that does not do ends join with the reason",
          "[spill][processes][error]") {
  const SmallRun here;
  ChildProcess coordinator = here.Start({"skerry-coordinator", "serve", here.Path("run"),
                                         "--dashboard", "none", "--bind", "tcp://127.0.0.1:*"},
                                        "coordinator.log");
  WaitFor(here.at / "coordinator.log", "serving run", coordinator);
  const std::string ticket = here.Run({"skerry-coordinator", "ticket", here.Path("run")});
  ChildProcess node = here.Start({"skerry-node", "join", ticket, "--home", here.Path("home"),
                                  "--threads", "1", "--spill", here.Path("missing")},
                                 "node.log");
  CHECK(node.Wait() == "exit code 1");
  CHECK(TextOf(here.at / "node.log").find("[SK-spill]") != std::string::npos);
}

}  // namespace skerry
