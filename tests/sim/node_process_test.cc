// Real processes without a coordinator that answers: what a home and Ctrl-C promise, and options.

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "common/status.h"
#include "sim/child_process.h"
#include "tests/model/temporary_directory.h"

using namespace skerry;
namespace fs = std::filesystem;

namespace {

std::string Program(const std::string& name) {
  return std::string(SKERRY_PROGRAMS_DIR) + "/" + name;
}

std::string TextOf(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// A run that nobody serves: its nodes dial, and wait.
class UnservedRun {
 public:
  UnservedRun() {
    std::string root = (fs::temp_directory_path() / "skerry-node-XXXXXX").string();
    REQUIRE(mkdtemp(root.data()) != nullptr);
    root_ = root;
    std::ofstream text(root + "/text.txt");
    for (int i = 0; i < 4000; ++i) text << "tide " << i % 7 << " and ebb " << i % 5 << ". ";
    text.close();
    const std::string program = Program("skerry-coordinator");
    const auto prepared =
        RunAndCapture({program, "data", "prepare", root + "/text.txt", "--out", root + "/data"});
    REQUIRE(prepared.ok());
    REQUIRE(RunAndCapture({program, "init", root + "/run", "--shards", root + "/data"}).ok());
    auto ticket =
        RunAndCapture({program, "ticket", root + "/run", "--endpoint", "tcp://127.0.0.1:1"});
    REQUIRE(ticket.ok());
    ticket_ = ticket->substr(0, ticket->find_last_not_of('\n') + 1);
  }
  ~UnservedRun() {
    std::error_code error;
    fs::remove_all(root_, error);
  }

  ChildProcess Join(const std::string& log) const {
    auto child = ChildProcess::Start(
        {Program("skerry-node"), "join", ticket_, "--home", (root_ / "home").string(), "--listen",
         "tcp://127.0.0.1:*", "--device", "cpu", "--threads", "1"},
        (root_ / log).string());
    REQUIRE(child.ok());
    return *std::move(child);
  }
  std::string Log(const std::string& log) const { return TextOf(root_ / log); }

 private:
  fs::path root_;
  std::string ticket_;
};

// Until its loop is there, which then handles signals.
void AwaitLoop(ChildProcess& node, const UnservedRun& run, const std::string& log) {
  while (run.Log(log).find("; joining ") == std::string::npos && node.Ended().empty())
    sched_yield();
  REQUIRE(node.Ended() == "");
}

// "node 1234abcd".
std::string NameIn(const std::string& log) {
  const size_t at = log.find("node ");
  REQUIRE(at != std::string::npos);
  return log.substr(at, log.find(',', at) - at);
}

}  // namespace

TEST_CASE("Node: a second join in one home is refused, says why, and leaves the first alone",
          "[node][processes]") {
  const UnservedRun run;
  ChildProcess first = run.Join("first.log");
  AwaitLoop(first, run, "first.log");

  ChildProcess second = run.Join("second.log");

  CHECK(second.Wait() == "exit code 1");
  const std::string said = run.Log("second.log");
  INFO(said);
  CHECK(said.find("a node lives in ") != std::string::npos);
  CHECK(said.find("process " + std::to_string(first.pid())) != std::string::npos);
  CHECK(said.find("--home") != std::string::npos);
  CHECK(first.Ended() == "");
}

TEST_CASE("Node: a second Ctrl-C ends it at once, and its home serves the next process",
          "[node][processes]") {
  const UnservedRun run;
  std::string before;
  {
    ChildProcess node = run.Join("before.log");
    AwaitLoop(node, run, "before.log");
    // Both wait when it goes on, so that the first cannot be over before the second. It has to
    // stand still by then: a SIGCONT takes back a SIGSTOP that has not been followed yet.
    kill(node.pid(), SIGSTOP);
    siginfo_t stopped = {};
    REQUIRE(waitid(P_PID, static_cast<id_t>(node.pid()), &stopped, WSTOPPED) == 0);
    kill(node.pid(), SIGINT);
    kill(node.pid(), SIGTERM);
    kill(node.pid(), SIGCONT);
    CHECK(node.Wait() == "exit code 130");
    before = run.Log("before.log");
    CHECK(before.find("ended: ") == std::string::npos);  // as it says when it takes its time
  }

  ChildProcess after = run.Join("after.log");

  AwaitLoop(after, run, "after.log");
  CHECK(NameIn(run.Log("after.log")) == NameIn(before));
}

TEST_CASE("swarm: --storm and --grid are draws, beside which --draw is refused", "[sim][swarm]") {
  const std::string kind = GENERATE("--storm", "--grid");
  const auto said = RunAndCapture(
      {"sh", "-c", Program("skerry-sim") + " swarm " + kind + " --draw 9 --seeds 1 2>&1; echo $?"});
  REQUIRE(said.ok());
  CHECK(said->find("skerry-sim swarm: " + kind + " excludes --draw\n") == 0);
  CHECK(said->find("\n0\n") == std::string::npos);
  CHECK(said->find(" from 1 in ") == std::string::npos);
}

TEST_CASE("What has nothing to clean up ends at once when it is interrupted", "[sim]") {
  const std::string command = GENERATE("run", "plan", "compare");
  CAPTURE(command);
  const TemporaryDirectory directory;
  const std::string scenario = directory.Join("scenario.toml");
  REQUIRE(mkfifo(scenario.c_str(), 0600) == 0);
  auto process =
      ChildProcess::Start({Program("skerry-sim"), command, scenario}, directory.Join("log"));
  REQUIRE(process.ok());
  // Opened once the command is at work: it reads.
  const int writer = open(scenario.c_str(), O_WRONLY | O_CLOEXEC);

  kill(process->pid(), SIGTERM);
  close(writer);

  CHECK(process->Wait() == "signal 15");
}

TEST_CASE("swarm ends at once when it is interrupted, and tells what it had", "[sim][swarm]") {
  const TemporaryDirectory directory;
  const std::string hashes = directory.Join("hashes"), log = directory.Join("log");
  REQUIRE(mkfifo(hashes.c_str(), 0600) == 0);
  auto process =
      ChildProcess::Start({Program("skerry-sim"), "swarm", "--storm", "--hashes", hashes}, log);
  REQUIRE(process.ok());
  // Opened once the first seed, of seconds, is under way.
  const int reader = open(hashes.c_str(), O_RDONLY | O_CLOEXEC);

  kill(process->pid(), SIGTERM);

  CHECK(process->Wait() == "exit code 130");
  close(reader);
  CHECK(TextOf(log).find("0 seeds from 1 in") != std::string::npos);
}

TEST_CASE("What swarm prints as it happens ends at once when it is interrupted", "[sim][swarm]") {
  const TemporaryDirectory directory;
  const std::string events = directory.Join("events");
  REQUIRE(mkfifo(events.c_str(), 0600) == 0);
  auto process = ChildProcess::Start(
      {"sh", "-c", "exec " + Program("skerry-sim") + " swarm --events >" + events},
      directory.Join("log"));
  REQUIRE(process.ok());
  const int reader = open(events.c_str(), O_RDONLY | O_CLOEXEC);
  char first = 0;
  REQUIRE(read(reader, &first, 1) == 1);

  kill(process->pid(), SIGTERM);
  close(reader);

  CHECK(process->Wait() == "signal 15");
}

TEST_CASE("emulate tells that it was interrupted, and where what it has stays",
          "[sim][processes]") {
  const TemporaryDirectory directory;
  const std::string log = directory.Join("log"), out = directory.Join("out");
  std::ofstream text(directory.Join("text.txt"));
  for (int i = 0; i < 4000; ++i) text << "tide " << i % 7 << " and ebb " << i % 5 << ". ";
  text.close();
  std::ofstream(directory.Join("scenario.toml")) << R"(name = "one"
text = "text.txt"
regions = ["here"]
[run]
nodes_min = 1
steps = 1000000
[model]
vocab = 256
hidden = 32
layers = 2
heads = 2
kv_heads = 1
ffn = 64
context = 32
[pipeline]
stages = 1
skip_ratio = 0.0
microbatches_per_step = 2
sequences_per_microbatch = 1
in_flight = 1
[[nodes]]
region = "here"
count = 1
)";
  // A terminal sends its signal to all that belong to a command.
  auto process = ChildProcess::Start(
      {"setsid", Program("skerry-sim"), "emulate", directory.Join("scenario.toml"), "--out", out},
      log);
  REQUIRE(process.ok());
  while (TextOf(log).find("  step ") == std::string::npos && process->Ended().empty())
    sched_yield();

  kill(-process->pid(), SIGINT);

  CHECK(process->Wait() == "exit code 130");
  INFO(TextOf(log));
  CHECK(TextOf(log).find("interrupted; the run and its logs stay in " + out) != std::string::npos);
  CHECK(fs::exists(out + "/run/journal.sqlite"));
}
