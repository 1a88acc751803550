// A cohort of real programs whose sums go over NCCL's body, up to NCCL itself, of which a library
// of this project has the functions here (tests/cuda_on_host).
#include <signal.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/siege/program_run.h"

using namespace skerry;
using siege::ProgramRun;
using siege::TextOf;

namespace {

constexpr int kNodes = 3;

constexpr char kRun[] = R"(
[run]
name = "one room"
seed = 1
steps = 12
nodes_min = 3
[outer]
inner_steps = 4
overlap_steps = 1
[pipeline]
stages = 1
skip_ratio = 0.0
microbatches_per_step = 3
sequences_per_microbatch = 1
[cluster]
groups = "frankfurt"
[model]
vocab = 256
)";

// What the nodes have said; `kills`: the last one dies once sums go over NCCL.
std::vector<std::string> Train(const std::vector<bool>& over_nccl, bool kills = false) {
  setenv("SKERRY_CUDA_PLUGIN", SKERRY_FIBERS_PLUGIN, 1);
  setenv("SKERRY_NCCL", SKERRY_FAKE_NCCL, 1);
  ProgramRun run(std::string(kRun) + siege::kTinyModel, "");
  run.Serve();
  const std::string ticket = run.Say({"ticket", run.Dir(), "--uses", std::to_string(kNodes)});
  std::vector<ChildProcess> nodes;
  for (int i = 0; i < kNodes; ++i) {
    CommandLine device = {"--device", "cuda", "--region", ProgramRun::kRegion};
    if (over_nccl[static_cast<size_t>(i)]) device.emplace_back("--nccl");
    nodes.push_back(run.Join(ticket, "node" + std::to_string(i), ProgramRun::kRegion, device));
  }
  if (kills) {
    siege::WaitFor(run.Log("node2"), "cohort_sums", nodes.back());
    REQUIRE(kill(nodes.back().pid(), SIGKILL) == 0);
  }
  CHECK(run.coordinator->Wait() == "exit code 0");
  std::vector<std::string> said;
  for (int i = 0; i < kNodes; ++i) {
    const bool is_killed = kills && i + 1 == kNodes;
    CHECK(nodes[static_cast<size_t>(i)].Wait() == (is_killed ? "signal 9" : "exit code 0"));
    said.push_back(TextOf(run.Log("node" + std::to_string(i))));
  }
  return said;
}

bool Holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("Programs: sums of a cohort go over NCCL where all its members say so",
          "[node][processes][cohorts]") {
  unsetenv("SKERRY_FAKE_NCCL_FAILS");
  for (const std::string& said : Train({true, true, true})) {
    INFO(said);
    CHECK(Holds(said, "cohort_sums: over NCCL 2.28.9 of 3"));
    CHECK(Holds(said, "finished: step 12, sums 12"));
  }
  for (const std::string& said : Train({true, false, true})) {
    INFO(said);
    CHECK(!Holds(said, "cohort_sums"));
    CHECK(Holds(said, "finished: step 12, sums 12"));
  }
}

TEST_CASE("Programs: where NCCL fails sums of the cohort go as messages, and the run goes on",
          "[node][processes][cohorts][error]") {
  setenv("SKERRY_FAKE_NCCL_FAILS", "5", 1);
  for (const std::string& said : Train({true, true, true})) {
    INFO(said);
    CHECK(Holds(said, "cohort_sums: over NCCL 2.28.9 of 3"));
    CHECK(Holds(said, "cohort_sums: over messages"));
    CHECK(Holds(said, "finished: step 12, sums 12"));
  }
}

TEST_CASE("Programs: who is left of a cohort meets on NCCL again, in the same processes",
          "[node][processes][cohorts][error]") {
  unsetenv("SKERRY_FAKE_NCCL_FAILS");
  std::vector<std::string> said = Train({true, true, true}, true);
  said.pop_back();
  for (const std::string& each : said) {
    INFO(each);
    CHECK(Holds(each, "cohort_sums: over NCCL 2.28.9 of 3"));
    CHECK(Holds(each, "cohort_sums: over NCCL 2.28.9 of 2"));
    CHECK(Holds(each, "finished: step 12, sums 12"));
  }
}
