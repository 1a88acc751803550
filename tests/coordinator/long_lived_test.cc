// What befalls a run that is served for long: it moves, it is looked at again.

#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "bench/siege/program_run.h"

using namespace skerry;
using skerry::siege::ProgramRun;
using skerry::siege::TextOf;
using skerry::siege::WaitFor;

namespace fs = std::filesystem;

namespace {

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// How it ended, with what it said in `log`.
std::string Try(const std::string& log, CommandLine arguments) {
  const std::string bin = fs::canonical("/proc/self/exe").parent_path().string();
  arguments.insert(arguments.begin(), bin + "/skerry-coordinator");
  auto process = ChildProcess::Start(arguments, log);
  REQUIRE(process.ok());
  return process->Wait();
}

}  // namespace

TEST_CASE("A run that is served elsewhere says where its nodes look for it", "[coordinator]") {
  ProgramRun run(1, 100'000);
  run.Serve();
  const std::string before = run.Endpoint();
  ChildProcess node = run.Join(run.Say({"ticket", run.Dir()}), "node");
  WaitFor(run.Log("coordinator"), "training", *run.coordinator);
  const auto end = [&run] {
    run.coordinator->Terminate();
    run.coordinator->Wait();
    const std::string said = TextOf(run.Log("coordinator"));
    fs::remove(run.Log("coordinator"));
    return said;
  };
  CHECK_FALSE(Has(end(), "was served at"));
  run.Serve("none", before);
  WaitFor(run.Log("coordinator"), "training", *run.coordinator);
  CHECK_FALSE(Has(end(), "was served at"));
  run.Serve();
  REQUIRE(run.Endpoint() != before);
  WaitFor(run.Log("coordinator"), "was served at " + before, *run.coordinator);
}

TEST_CASE("What was changed in run.toml after the run began is named", "[coordinator][error]") {
  ProgramRun run(1, 100'000);
  run.Serve();
  ChildProcess node = run.Join(run.Say({"ticket", run.Dir()}), "node");
  WaitFor(run.Log("coordinator"), "training", *run.coordinator);
  run.coordinator->Terminate();
  run.coordinator->Wait();
  std::string toml = TextOf(run.at / "run/run.toml");
  const std::string was = "steps = 100000 ", is = "steps = 200000 ";
  REQUIRE(Has(toml, was));
  toml.replace(toml.find(was), was.size(), is);
  std::ofstream(run.at / "run/run.toml") << toml;
  const std::string log = run.Log("refusal").string();
  CHECK(Try(log, {"serve", run.Dir(), "--bind", "tcp://127.0.0.1:*"}) == "exit code 1");
  CHECK(Has(TextOf(log), "([run] steps was 100000, is 200000)"));
}

TEST_CASE("A node that rests by its limits is not said to join when a pause ends", "[node]") {
  ProgramRun run(1, 100'000);
  run.Serve();
  ChildProcess node = run.Join(run.Say({"ticket", run.Dir()}), "node", ProgramRun::kRegion,
                               {"--daily-gb", "0.000000001"});
  WaitFor(run.Log("node"), "the node rests: the day's", node);
  WaitFor(run.at / "node/status.json", "the day's", node);
  const std::string bin = fs::canonical("/proc/self/exe").parent_path().string() + "/skerry-node";
  const auto said = RunAndCapture({bin, "resume", "--home", (run.at / "node").string()});
  CHECK(Has(said.value_or(""), "not paused, but the node rests still: the day's"));
}

TEST_CASE("A ticket for a run that is finished says so", "[coordinator]") {
  ProgramRun run(1, 10);
  run.Serve();
  const std::string log = run.Log("ticket").string();
  CHECK(Try(log, {"ticket", run.Dir()}) == "exit code 0");
  CHECK_FALSE(Has(TextOf(log), "finished"));
  ChildProcess node = run.Join(run.Say({"ticket", run.Dir()}), "node");
  CHECK(run.coordinator->Wait() == "exit code 0");
  CHECK(Try(log, {"ticket", run.Dir()}) == "exit code 0");
  CHECK(Has(TextOf(log), "note: the run is finished"));
}

TEST_CASE("A trace that comes to nothing leaves the one before it as it was",
          "[coordinator][error]") {
  std::string name = (fs::temp_directory_path() / "skerry-trace-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  const fs::path at = name;
  std::ofstream(at / "events.jsonl") << R"({"t":1.0,"kind":"step","step":0,"loss":1.5})"
                                     << "\n";
  const std::string log = (at / "log").string(), out = (at / "trace.json").string();
  const CommandLine trace = {"trace", name, "--out", out};
  CHECK(Try(log, trace) == "exit code 1");
  CHECK(Has(TextOf(log), "[SK-explain-nothing]"));
  CHECK_FALSE(fs::exists(out));
  std::ofstream(out) << "of yesterday";
  CHECK(Try(log, trace) == "exit code 1");
  CHECK(TextOf(out) == "of yesterday");
  CHECK(std::distance(fs::directory_iterator(at), fs::directory_iterator()) == 3);
  CHECK(Try(log, {"trace", name, "--from-step", "9", "--to-step", "8"}) == "exit code 1");
  CHECK(Has(TextOf(log), "--from-step 9 is after --to-step 8"));
  CHECK(Try(log, {"trace", name, "--out", name + "/nowhere/trace.json"}) == "exit code 1");
  CHECK(Has(TextOf(log), "No such file or directory"));
  fs::remove_all(at);
}

TEST_CASE("Where too little text is there to hold any out that is said, and how to read a pipe",
          "[coordinator]") {
  std::string name = (fs::temp_directory_path() / "skerry-data-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  const fs::path at = name;
  fs::create_directory(at / "texts");
  for (int i = 0; i < 2000; ++i) std::ofstream(at / "texts/one.txt", std::ios::app) << "a line\n";
  const auto prepare = [&](const std::string& text, const std::string& out) {
    return Try((at / out).string() + ".log",
               {"data", "prepare", (at / text).string(), "--out", (at / out).string()});
  };
  CHECK(prepare("texts", "all") == "exit code 0");
  CHECK(Has(TextOf(at / "all.log"), "too little text to hold any out"));
  CHECK(prepare("texts/one.txt", "one") == "exit code 0");
  CHECK_FALSE(Has(TextOf(at / "one.log"), "too little text"));
  REQUIRE(mkfifo((at / "pipe").c_str(), 0600) == 0);
  CHECK(prepare("pipe", "none") == "exit code 1");
  CHECK(Has(TextOf(at / "none.log"), "a pipe is read as -"));
  fs::remove_all(at);
}
