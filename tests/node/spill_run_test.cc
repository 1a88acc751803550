// A node with little memory and a disk is given a stage that its memory does not hold, and trains
// it, by the real programs.
#include "tests/node/parked_run.h"

namespace skerry {

TEST_CASE("Spill run: the disk holds what memory does not, and the model has the same bits",
          "[spill][processes]") {
  ParkedRun run;
  const int64_t offered = run.Needs(5, false).each.needed();
  REQUIRE(offered < run.Needs(0, false).each.needed());
  run.Check({"--memory", GibText(offered)}, "5 stashes parked", "cpu");
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
