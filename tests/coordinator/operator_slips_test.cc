// What operators mistype, and what they do twice: the programs say so at once, and name what was
// wrong.

#include <pwd.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>

#include "bench/siege/program_run.h"
#include "coordinator/leave_reasons.h"

using namespace skerry;
using skerry::siege::ProgramRun;
using skerry::siege::TextOf;
using skerry::siege::WaitFor;

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

// Returns when all its threads stand: what one was writing is written, or never will be.
void Stop(const ChildProcess& process) {
  kill(process.pid(), SIGSTOP);
  siginfo_t stopped{};
  REQUIRE(waitid(P_PID, static_cast<id_t>(process.pid()), &stopped, WSTOPPED) == 0);
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

TEST_CASE("Addresses that no peer could use are refused before a node joins", "[node][error]") {
  const ProgramRun run(1, 10);
  const std::string ticket = run.Say({"ticket", run.Dir(), "--advertise", "tcp://127.0.0.1:9"});
  const auto refusal = [&](const std::string& option, const std::string& value) {
    return Refusal(run, "skerry-node",
                   {"join", ticket, "--home", (run.at / "home").string(), option, value});
  };
  CHECK(Has(refusal("--advertise", "foo"), "[SK-ticket-address]"));
  CHECK(Has(refusal("--advertise", "tcp://0.0.0.0:7701"), "names no machine"));
  CHECK(Has(refusal("--listen", "7701"), "nobody can listen at '7701'"));
  CHECK_FALSE(fs::exists(run.at / "home"));
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
  CHECK(Has(Refusal(run, "skerry-coordinator", {"serve", run.Dir(), "--bind", "tcp://" + address}),
            "it is taken by another program; choose another port"));
  CHECK(Has(Refusal(run, "skerry-node",
                    {"join", ticket, "--home", (run.at / "home").string(), "--device", "cpu",
                     "--metrics", address}),
            "is taken"));
}

TEST_CASE("A page whose port another program still holds is there once that has ended",
          "[coordinator]") {
  ProgramRun before(1, 10), run(1, 10);
  before.ServeDashboardOnly();
  const std::string url = TextOf(before.at / "run" / "dashboard");
  run.Serve("127.0.0.1:" + std::to_string(std::stoi(url.substr(17))));
  WaitFor(run.Log("coordinator"), "is taken; tried again for 10 s", *run.coordinator);
  before.coordinator.reset();
  WaitFor(run.Log("coordinator"), "dashboard: " + url.substr(0, url.size() - 1), *run.coordinator);
}

TEST_CASE("A serve that is refused leaves the page of the one that serves alone",
          "[coordinator][error]") {
  ProgramRun run(1, 10);
  run.Serve("127.0.0.1:0");
  WaitFor(run.Log("coordinator"), "dashboard: ", *run.coordinator);
  const std::string url = TextOf(run.at / "run" / "dashboard");
  const CommandLine again = {"serve",       run.Dir(),    "--bind", "tcp://127.0.0.1:*",
                             "--dashboard", "127.0.0.1:0"};
  const std::string said = Refusal(run, "skerry-coordinator", again);
  CHECK(Has(said, "[SK-run-served]"));
  CHECK_FALSE(Has(said, "dashboard: "));
  CHECK(TextOf(run.at / "run" / "dashboard") == url);
}

TEST_CASE("Files of a run that hold something else are called that", "[coordinator][error]") {
  ProgramRun run(1, 10);
  CHECK(Has(run.Say({"nodes", run.Dir()}), "nobody serves this run"));
  std::ofstream(run.at / "run" / "orders.jsonl") << "{\"a\n";
  run.Serve();
  WaitFor(run.Log("coordinator"), "got '{\"a'; it is skipped", *run.coordinator);
  CHECK(Has(TextOf(run.Log("coordinator")), "[SK-order-unread]"));
  CHECK_FALSE(Has(run.Say({"nodes", run.Dir()}), "nobody serves"));
  kill(run.coordinator->pid(), SIGKILL);
  run.coordinator->Wait();
  CHECK(Has(run.Say({"nodes", run.Dir()}), "nobody serves this run; as it was at 20"));
  std::ofstream(run.at / "run" / "status.json") << "[]";
  CHECK(Has(Refusal(run, "skerry-coordinator", {"status", run.Dir()}), "[SK-status-damaged]"));
}

TEST_CASE("A rate that is never reached is noted, and hinders nobody", "[coordinator]") {
  const ProgramRun run(1, 10);
  const std::string file = (run.at / "run.toml").string();
  std::ofstream(file, std::ios::app) << "[inner]\nwarmup_steps = 11\n";
  const std::string note = "note: [inner] warmup_steps (11) is more than [run] steps (10)";
  CHECK(Has(run.Say({"init", (run.at / "other").string(), "--config", file}), note));
}

TEST_CASE("Why nodes leave is said once a reason, and not more than a line every ten seconds",
          "[coordinator]") {
  LeaveReasons reasons;
  const auto said = [&](double now_s, const std::string& why) {
    return reasons.Line(now_s, "left", R"("node":"3fa9","why":"it left: )" + why + "\"");
  };
  CHECK(said(0, "damaged data") == "node 3fa9 left: damaged data");
  CHECK(said(30, "damaged data").empty());
  CHECK(said(31, "no memory") == "node 3fa9 left: no memory");
  CHECK(said(35, "interrupted").empty());
  CHECK(said(42, "interrupted") == "node 3fa9 left: interrupted");
  CHECK(reasons.Line(60, "dead", R"("node":"3fa9","why":"it is silent")") ==
        "node 3fa9 is taken for dead: it is silent");
}

TEST_CASE("That nobody is left of a stage is printed where the run is served", "[coordinator]") {
  ProgramRun run(2, 100'000, 0, 2);
  run.Serve();
  const std::string ticket = run.Say({"ticket", run.Dir(), "--uses", "2"});
  ChildProcess one = run.Join(ticket, "one"), two = run.Join(ticket, "two");
  WaitFor(run.Log("one"), "training: ", one);
  run.Say({"checkpoint", run.Dir()});
  WaitFor(run.at / "run" / "events.jsonl", R"("kind":"checkpoint")", *run.coordinator);
  two.Terminate();
  WaitFor(run.Log("coordinator"), "nobody is left of stage ", *run.coordinator);
  CHECK(Has(TextOf(run.Log("coordinator")), "; the run goes back to step "));
}

TEST_CASE("Who waits for the operator's approval says so in its status, too", "[node]") {
  ProgramRun run(1, 10);
  run.Serve();
  ChildProcess node = run.Join(run.Say({"ticket", run.Dir(), "--approve"}), "node");
  WaitFor(run.Log("node"), "waiting for the operator's approval", node);
  WaitFor(run.at / "node" / "status.json", "the operator's approval", node);
}

TEST_CASE("A ticket of another run is not made void by this one", "[coordinator][error]") {
  const ProgramRun run(1, 10), other(1, 10);
  const auto ticket_of = [](const ProgramRun& of) {
    return of.Say({"ticket", of.Dir(), "--advertise", "tcp://127.0.0.1:9"});
  };
  CHECK(Has(Refusal(run, "skerry-coordinator", {"revoke", run.Dir(), ticket_of(other)}),
            "[SK-ticket-other-run]"));
  CHECK(Has(run.Say({"revoke", run.Dir(), ticket_of(run)}), "admits nobody any more"));
}

TEST_CASE("A copy of a run that is served is not called served", "[coordinator]") {
  ProgramRun run(1, 10);
  run.Serve();
  const fs::path copy = run.at / "copy";
  fs::create_directory(copy);
  for (const char* file : {"coordinator.key", "journal.sqlite", "lock", "run.toml"})
    fs::copy(run.at / "run" / file, copy);
  const auto told = [&run](const std::string& of) {
    return run.Say({"admission", of, "--policy", "open"});
  };
  CHECK(Has(told(run.Dir()), "admission is open"));
  CHECK(Has(told(copy.string()), "as soon as the coordinator of " + copy.string() + " is started"));
}

TEST_CASE("Of a run that is finished nothing is noted that can never be", "[coordinator][error]") {
  ProgramRun run(1, 10);
  run.Serve();
  ChildProcess node = run.Join(run.Say({"ticket", run.Dir()}), "node");
  CHECK(run.coordinator->Wait() == "exit code 0");
  CHECK(node.Wait() == "exit code 0");
  for (const char* order : {"pause", "resume", "checkpoint"}) {
    INFO(order);
    CHECK(Has(Refusal(run, "skerry-coordinator", {order, run.Dir()}), "[SK-run-over]"));
  }
}

TEST_CASE("A reason that is too long to be kept is called that", "[coordinator][error]") {
  const ProgramRun run(1, 10);
  CHECK(
      Has(Refusal(run, "skerry-coordinator", {"pause", run.Dir(), "--why", std::string(201, 'y')}),
          "201 bytes long, and 200 are kept"));
}

TEST_CASE("Without HOME, as under cron, a node lives where its user does", "[node]") {
  const ProgramRun run(1, 10);
  const std::string node = fs::canonical("/proc/self/exe").parent_path().string() + "/skerry-node";
  auto asks = ChildProcess::Start({"/usr/bin/env", "-i", node, "status"}, run.Log("asks").string());
  REQUIRE(asks.ok());
  asks->Wait();  // a node of this user may well run
  const std::string said = TextOf(run.Log("asks"));
  CHECK_FALSE(Has(said, " ./.local"));
  if (Has(said, "no node runs")) CHECK(Has(said, getpwuid(getuid())->pw_dir));
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
  WaitFor(run.at / "run" / "status.json", "phase", *run.coordinator);
  CHECK_FALSE(Has(run.Say({"status", run.Dir()}), "said nothing"));
  Stop(*run.coordinator);
  SetBack(run.at / "run" / "status.json", 60);
  CHECK_FALSE(Has(run.Say({"status", run.Dir()}), "said nothing"));  // of the one before it
  SetBack(run.at / "run" / "lock", 90);
  CHECK(Has(run.Say({"status", run.Dir()}), "it has said nothing for 6"));
  kill(run.coordinator->pid(), SIGCONT);
}

TEST_CASE("A run that is served and has no picture yet is not called unserved",
          "[coordinator][error]") {
  ProgramRun run(1, 10);
  run.Serve();
  Stop(*run.coordinator);
  fs::remove(run.at / "run" / "status.json");
  CHECK(run.Say({"status", run.Dir()}).starts_with("leader: process "));
  kill(run.coordinator->pid(), SIGCONT);
}

TEST_CASE("On a full disk a report leaves the one before it as it was", "[coordinator][error]") {
  ProgramRun run(1, 10);
  run.Serve();
  WaitFor(run.at / "run" / "status.json", "phase", *run.coordinator);
  run.Say({"report", run.Dir()});
  const std::string before = TextOf(run.at / "run" / "report.json");
  fs::create_symlink("/dev/full", run.at / "run" / "report.json.partial");
  CHECK(Has(Refusal(run, "skerry-coordinator", {"report", run.Dir()}), "make room and try again"));
  CHECK(TextOf(run.at / "run" / "report.json") == before);
  CHECK_FALSE(before.empty());
}

TEST_CASE("The audit of a damaged journal says how far what it says goes", "[coordinator][error]") {
  ProgramRun run(1, 10);
  run.Serve();
  auto node = run.Join(run.Say({"ticket", run.Dir()}), "node");
  CHECK(run.coordinator->Wait() == "exit code 0");
  const fs::path journal = run.at / "run" / "journal.sqlite";
  const auto finished = TextOf(journal).find("{\"kind\":\"finished\"}");
  REQUIRE(finished != std::string::npos);
  std::fstream(journal, std::ios::in | std::ios::out | std::ios::binary)
          .seekp(static_cast<std::streamoff>(finished))
      << "?";
  const std::string said = Refusal(run, "skerry-coordinator", {"audit", run.Dir()});
  CHECK(Has(said, "nothing contradicts\nthat far; what follows could not be read"));
  CHECK(Has(said, "[SK-journal-damaged]"));
}

TEST_CASE("A serve that is refused has shown no dashboard and taken no port",
          "[coordinator][error]") {
  const ProgramRun run(1, 10);
  const fs::path key = run.at / "run" / "coordinator.key";
  const fs::path dashboard = run.at / "run" / "dashboard";
  std::ofstream(dashboard) << "of before";
  const auto refusal = [&](const std::string& bind) {
    return Refusal(run, "skerry-coordinator",
                   {"serve", run.Dir(), "--bind", bind, "--dashboard", "127.0.0.1:0"});
  };
  CHECK_FALSE(Has(refusal("tcp://192.0.2.1:7700"), "dashboard"));
  std::ofstream(key) << "no key";
  CHECK_FALSE(Has(refusal("tcp://127.0.0.1:*"), "dashboard"));
  CHECK(TextOf(dashboard) == "of before");
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
