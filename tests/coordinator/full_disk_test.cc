// Commands that write much, on a disk that takes no more.

#include <catch2/catch.hpp>

#include "bench/siege/program_run.h"

using namespace skerry;
using skerry::siege::ProgramRun;

namespace fs = std::filesystem;

TEST_CASE(
    "What could not be written leaves nothing behind, and the same command can be given again",
    "[coordinator][error]") {
  ProgramRun run(1, 10);
  run.Serve();
  auto node = run.Join(run.Say({"ticket", run.Dir()}), "node");
  CHECK(run.coordinator->Wait() == "exit code 0");
  const std::string out = (run.at / "above" / "out").string();
  const std::string text = (run.at / "text.txt").string();
  for (const CommandLine& command : {CommandLine{"export", run.Dir(), "--out", out},
                                     CommandLine{"data", "prepare", text, "--out", out}}) {
    INFO(command.front());
    const std::string bin = fs::canonical("/proc/self/exe").parent_path().string();
    // A file of 4 KiB is the most that this disk takes.
    CommandLine full = {"sh", "-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh",
                        bin + "/skerry-coordinator"};
    full.insert(full.end(), command.begin(), command.end());
    auto process = ChildProcess::Start(full, run.Log("full").string());
    REQUIRE(process.ok());
    CHECK(process->Wait() == "exit code 1");
    CHECK_FALSE(fs::exists(run.at / "above"));
    CHECK(run.Say(command).find(out) != std::string::npos);
    fs::remove_all(run.at / "above");
  }
}
