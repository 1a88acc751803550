// What operators mistype, and what they do twice: the programs say so at once, and name what was
// wrong.

#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>

#include "bench/siege/program_run.h"

using namespace skerry;
using skerry::siege::ProgramRun;
using skerry::siege::TextOf;

namespace fs = std::filesystem;

namespace {

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// What a program says that must end by itself, with an error.
std::string Refusal(const ProgramRun& run, const std::string& program, CommandLine arguments) {
  const fs::path log = run.at / "refusal.log";
  fs::remove(log);
  const std::string bin = fs::canonical("/proc/self/exe").parent_path().string();
  arguments.insert(arguments.begin(), bin + "/" + program);
  auto process = ChildProcess::Start(arguments, log.string());
  REQUIRE(process.ok());
  CHECK(process->Wait() == "exit code 1");
  return TextOf(log);
}

void SetBack(const fs::path& file, int seconds) {
  fs::last_write_time(file, fs::last_write_time(file) - std::chrono::seconds(seconds));
}

}  // namespace

TEST_CASE("A directory without a run, and a run that was never served, are called that",
          "[coordinator][error]") {
  const ProgramRun run(1, 10);
  const std::string empty = (run.at / "empty").string();
  fs::create_directory(empty);
  for (const char* command :
       {"watch", "status", "explain", "trace", "report", "checkpoints", "export"}) {
    INFO(command);
    CHECK(Has(Refusal(run, "skerry-coordinator", {command, empty}), "[SK-run-missing]"));
    CHECK_FALSE(fs::exists(empty + "/report.json"));
  }
  for (const char* command : {"status", "explain", "trace", "report"}) {
    INFO(command);
    CHECK(Has(Refusal(run, "skerry-coordinator", {command, run.Dir()}), "[SK-run-unserved]"));
  }
}

TEST_CASE("The directory of a run is not its run.toml, and passes for no empty one",
          "[coordinator][error]") {
  const ProgramRun run(1, 10);
  CHECK(Has(Refusal(run, "skerry-coordinator", {"config", "check", run.Dir()}), "is a directory"));
}

TEST_CASE("Addresses that nobody could use are refused before a run is served",
          "[coordinator][error]") {
  const ProgramRun run(1, 10);
  const auto refusal = [&run](const std::string& option, const std::string& value) {
    return Refusal(run, "skerry-coordinator",
                   {"serve", run.Dir(), "--bind", "tcp://127.0.0.1:*", option, value});
  };
  CHECK(Has(refusal("--advertise", "example.org"), "[SK-ticket-address]"));
  CHECK(Has(refusal("--advertise", "tcp://0.0.0.0:7700"), "names no machine"));
  CHECK(Has(refusal("--dashboard", "7780"), "want host:port"));
  CHECK(Has(refusal("--push-checkpoints", "/backup"), "want s3://BUCKET/PREFIX"));
  CHECK_FALSE(fs::exists(run.at / "run" / "endpoint"));
  const CommandLine ticket = {"ticket", run.Dir(), "--advertise", "tcp://h:1", "--expires", "0h"};
  CHECK(Has(Refusal(run, "skerry-coordinator", ticket), "[SK-ticket-lifetime]"));
}

TEST_CASE("Data that no node could train on is refused before anybody joins",
          "[coordinator][error]") {
  const ProgramRun run(1, 10);
  const CommandLine serve = {"serve", run.Dir(), "--bind", "tcp://127.0.0.1:*"};
  const fs::path data = run.at / "run" / "data", shard = data / "train-00000.tok";
  fs::resize_file(shard, fs::file_size(shard) / 2);
  CHECK(Has(Refusal(run, "skerry-coordinator", serve), "train-00000.tok"));
  fs::remove_all(data);
  CHECK(Has(Refusal(run, "skerry-coordinator", serve), "no training data is there"));

  std::ofstream(run.at / "few.txt") << "a few words";
  run.Say({"data", "prepare", (run.at / "few.txt").string(), "--out", data.string()});
  CHECK(Has(Refusal(run, "skerry-coordinator", serve), "[SK-data-model]"));

  const std::string other = (run.at / "other").string();
  CHECK(Has(Refusal(run, "skerry-coordinator", {"init", other, "--shards", run.Dir()}),
            "no index.json is there"));
  CHECK(Has(run.Say({"init", other}), "next: skerry-coordinator data prepare TEXT"));
}

TEST_CASE("A checkpoint whose manifest is damaged is called that, by name and with what to do",
          "[coordinator][error]") {
  const ProgramRun run(1, 10);
  const fs::path generations = run.at / "run" / "checkpoints" / "generations";
  fs::create_directories(generations);
  fs::create_directories(generations.parent_path() / "chunks");
  std::ofstream(generations / "000007.json") << "x";
  CHECK(Has(Refusal(run, "skerry-coordinator", {"checkpoints", run.Dir()}),
            "checkpoint 7: the manifest is cut short [SK-checkpoint-damaged]"));
  CHECK(Has(Refusal(run, "skerry-coordinator", {"export", run.Dir()}), "[SK-checkpoint-damaged]"));
  CHECK(Has(Refusal(run, "skerry-coordinator", {"export", run.Dir(), "--checkpoint", "8"}),
            "has no checkpoint 8, but 7"));
}

TEST_CASE("A port that one program answers at is taken for all others", "[coordinator][error]") {
  ProgramRun run(1, 10);
  const std::string ticket = run.Say({"ticket", run.Dir(), "--advertise", "tcp://127.0.0.1:9"});
  run.ServeDashboardOnly();
  const std::string url = TextOf(run.at / "run" / "dashboard");
  const std::string address = "127.0.0.1:" + std::to_string(std::stoi(url.substr(17)));
  CHECK(Has(Refusal(run, "skerry-coordinator", {"dashboard", run.Dir(), "--bind", address}),
            "is taken"));
  CHECK(Has(Refusal(run, "skerry-node",
                    {"join", ticket, "--home", (run.at / "home").string(), "--device", "cpu",
                     "--metrics", address}),
            "is taken"));
}

TEST_CASE("A pause where no node runs says that, and going on makes no home", "[node]") {
  const ProgramRun run(1, 10);
  const std::string node = fs::canonical("/proc/self/exe").parent_path().string() + "/skerry-node";
  const std::string home = (run.at / "home").string();
  const auto said = [&](const char* command) {
    return RunAndCapture({node, command, "--home", home}).value();
  };
  CHECK(Has(said("resume"), "no node runs in " + home));
  CHECK_FALSE(fs::exists(home));
  CHECK(Has(said("pause"), "no node runs in " + home + " now; one that joins there waits"));
  CHECK(fs::exists(home + "/paused"));
}

TEST_CASE("Of a coordinator that hangs status says how long it has said nothing",
          "[coordinator][error]") {
  ProgramRun run(1, 10);
  run.Serve();
  CHECK_FALSE(Has(run.Say({"status", run.Dir()}), "said nothing"));
  kill(run.coordinator->pid(), SIGSTOP);
  SetBack(run.at / "run" / "status.json", 60);
  CHECK_FALSE(Has(run.Say({"status", run.Dir()}), "said nothing"));  // of the one before it
  SetBack(run.at / "run" / "lock", 90);
  CHECK(Has(run.Say({"status", run.Dir()}), "it has said nothing for 6"));
  kill(run.coordinator->pid(), SIGCONT);
}

TEST_CASE("A journal that lost its end on the disk is mended, twice if need be, and served again",
          "[coordinator][error]") {
  ProgramRun run(1, 200);
  run.Serve();
  auto node = run.Join(run.Say({"ticket", run.Dir()}), "node");
  CHECK(run.coordinator->Wait() == "exit code 0");
  CHECK(Has(TextOf(run.Log("coordinator")), "model: " + run.Dir() + "/model"));
  const fs::path journal = run.at / "run" / "journal.sqlite";
  const auto damage = [&] { fs::resize_file(journal, fs::file_size(journal) - 4096); };
  damage();
  CHECK(Has(run.Say({"mend", run.Dir()}), "the journal ends with record"));
  CHECK(Has(run.Say({"audit", run.Dir()}), "nothing contradicts"));
  damage();
  CHECK(Has(run.Say({"mend", run.Dir()}), "journal.sqlite.damaged-2"));
  CHECK(Has(run.Say({"mend", run.Dir()}), "records are whole"));
  fs::remove(run.Log("coordinator"));
  run.Serve();
}
