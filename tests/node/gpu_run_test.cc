// A run on a GPU whose host makes the optimizer's steps, by the real programs: the plug-in is the
// CUDA text on fibers of the processor.
#include "tests/node/parked_run.h"

namespace skerry {

TEST_CASE("GPU run: with its optimizer on the host a node makes the model that the GPU would make",
          "[cuda][offload][processes]") {
  setenv("SKERRY_CUDA_PLUGIN", SKERRY_FIBERS_PLUGIN, 1);
  const SmallRun here("offload = \"always\"");
  const std::string said = here.Train({"--device", "cuda"});
  INFO(said);
  CHECK(said.find("fibers") != std::string::npos);
  CHECK(said.find("optimizer host") != std::string::npos);
  const std::string plan = here.Run({"skerry-coordinator", "plan", here.Path("run")});
  CHECK(plan.find("optimizer on the host") != std::string::npos);
  const std::string nodes = here.Run({"skerry-coordinator", "nodes", here.Path("run")});
  INFO(nodes);
  CHECK(nodes.find("1.00+") != std::string::npos);  // GiB of the GPU, and the host's

  const auto trained = here.Values("run/model");
  here.Reference("cuda:0", "alone");
  const auto alone = here.Values("alone");
  REQUIRE(trained.size() == alone.size());
  double apart = 0, size = 0;
  for (size_t i = 0; i < alone.size(); ++i) {
    apart += std::pow(double{trained[i]} - alone[i], 2);
    size += std::pow(double{alone[i]}, 2);
  }
  CHECK(std::sqrt(apart / size) < 1e-4);
}

TEST_CASE("GPU run: activations that its host has no room for lie on a disk, and the bits are same",
          "[cuda][spill][processes]") {
  setenv("SKERRY_CUDA_PLUGIN", SKERRY_FIBERS_PLUGIN, 1);
  ParkedRun run;
  const NodeMemory offered = run.Needs(5, true);
  run.Check({"--device", "cuda", "--memory", GibText(offered.each.needed()), "--host-memory",
             GibText(offered.host.needed())},
            "5 stashes parked on disk", "cuda:0");
}

}  // namespace skerry
