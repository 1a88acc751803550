// The programs themselves: two coordinators, one database, real nodes. Coordinators are killed and
// stopped, the database is restarted, and one run comes to its one end.

#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "bench/siege/program_run.h"
#include "sim/child_process.h"
#include "tests/coordinator/postgres_server.h"

using namespace skerry;
using skerry::siege::TextOf;
using skerry::siege::WaitFor;
using skerry::testing::PostgresServer;
namespace fs = std::filesystem;

namespace {

constexpr int kSteps = 80;
constexpr char kRun[] = R"(
[run]
name = "two coordinators"
seed = 1
steps = 80
nodes_min = 4
[model]
vocab = 256
hidden = 32
layers = 4
heads = 2
kv_heads = 1
ffn = 64
context = 32
[outer]
inner_steps = 10
overlap_steps = 1
[pipeline]
stages = 2
skip_ratio = 0.0
microbatches_per_step = 2
sequences_per_microbatch = 1
in_flight = 1
)";
constexpr int kNodes = 4;

// What makes the run last is waiting, not computing: everybody is far from everybody.
std::string Shape() {
  std::string text;
  for (int i = 0; i <= kNodes; ++i) text += absl::StrFormat("[[region]]\nname = \"place%d\"\n", i);
  for (int i = 0; i <= kNodes; ++i) {
    for (int j = i + 1; j <= kNodes; ++j) {
      text += absl::StrFormat(
          "[[pair]]\na = \"place%d\"\nb = \"place%d\"\nrtt_ms = 50\nrate_mbps = 100\n", i, j);
    }
  }
  return text;
}

class Fixture {
 public:
  Fixture() : bin_(fs::canonical("/proc/self/exe").parent_path().string() + "/") {
    std::string name = (fs::temp_directory_path() / "skerry-takeover-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    at = name;
    std::ofstream(at / "run.toml") << kRun;
    std::ofstream(at / "wan.toml") << Shape();
    std::ofstream text(at / "text.txt");
    for (int i = 0; i < 20'000; ++i) text << "line " << i * 7919 % 1000 << " of it.\n";
  }
  ~Fixture() { fs::remove_all(at); }

  std::string Program() const { return bin_ + "skerry-coordinator"; }
  std::string Say(const CommandLine& arguments) const {
    CommandLine command = {bin_ + "skerry-coordinator"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const auto said = RunAndCapture(command);
    INFO(QuoteCommand(command));
    REQUIRE(said.ok());
    return said->substr(0, said->find_last_not_of('\n') + 1);
  }
  ChildProcess Serve(const std::string& directory, const std::string& log,
                     const std::string& bind = "tcp://127.0.0.1:*") const {
    auto process = ChildProcess::Start(
        {bin_ + "skerry-coordinator", "serve", (at / directory).string(), "--dashboard", "none",
         "--bind", bind, "--shape", (at / "wan.toml").string(), "--region", "place0"},
        (at / log).string());
    REQUIRE(process.ok());
    return *std::move(process);
  }
  ChildProcess Join(const std::string& ticket, int number) const {
    const std::string name = absl::StrFormat("node%d", number);
    auto process = ChildProcess::Start(
        {bin_ + "skerry-node", "join", ticket, "--home", (at / name).string(), "--listen",
         "tcp://127.0.0.1:*", "--device", "cpu", "--threads", "1", "--shape",
         (at / "wan.toml").string(), "--region", absl::StrFormat("place%d", number)},
        (at / (name + ".log")).string());
    REQUIRE(process.ok());
    return *std::move(process);
  }

  fs::path at;

 private:
  std::string bin_;
};

void Init(const Fixture& here, const PostgresServer& database) {
  const std::string a = (here.at / "a").string(), b = (here.at / "b").string();
  here.Say({"init", a, "--config", (here.at / "run.toml").string(), "--data",
            (here.at / "text.txt").string(), "--store", database.Url(), "--checkpoints",
            (here.at / "shared").string()});
  here.Say({"init", b, "--standby-of", a});
  CHECK(fs::equivalent(here.at / "a" / "checkpoints", here.at / "b" / "checkpoints"));
  CHECK((fs::status(here.at / "b" / "store").permissions() & fs::perms::others_read) ==
        fs::perms::none);
}

// One run, all of it, each record written by one leader after the other.
void CheckRun(const Fixture& here, const PostgresServer& database) {
  const auto status = nlohmann::json::parse(TextOf(here.at / "a" / "status.json"));
  CHECK(status["step"] == kSteps);
  CHECK(status["tokens"] == kSteps * 2 * 32);
  CHECK(fs::exists(here.at / "a" / "model" / "model.safetensors"));
  for (const char* directory : {"a", "b"}) {
    const std::string audit = here.Say({"audit", (here.at / directory).string()});
    CHECK(audit.find("nothing contradicts") != std::string::npos);
    CHECK(audit.find("the run is exported") != std::string::npos);
  }
  CHECK(database.Ask("SELECT count(DISTINCT epoch) FROM skerry_record") == "3");
  CHECK(database.Ask("SELECT count(*) FROM (SELECT epoch < lag(epoch) OVER (ORDER BY number) AS "
                     "back FROM skerry_record) AS steps WHERE back") == "0");
}

// Whichever machine is asked: the second one leads.
void CheckLeader(const Fixture& here) {
  for (const char* directory : {"a", "b"}) {
    const auto status =
        nlohmann::json::parse(here.Say({"status", (here.at / directory).string(), "--json"}));
    const auto& leader = status["leader"];
    CHECK(leader["leads"] == true);
    CHECK(leader["epoch"] == 3);  // init wrote the first records in epoch 1
    CHECK(
        leader["endpoint"] ==
        TextOf(here.at / "b" / "endpoint").substr(0, leader["endpoint"].get<std::string>().size()));
    CHECK(leader["since_s"] < 60);
    CHECK(leader["records"] > 10);
    REQUIRE(leader["standbys"].size() == 1);
    CHECK(leader["standbys"][0]["silent_s"] > 0);
  }
}

}  // namespace

TEST_CASE("Takeover: coordinators are killed and stopped, the database restarts, the run ends once",
          "[coordinator][postgres][processes]") {
  PostgresServer database;
  const Fixture here;
  Init(here, database);
  const auto round = R"("kind":"round")";

  // One leads, the other stands by. A ticket names both.
  ChildProcess first = here.Serve("a", "first.log");
  WaitFor(here.at / "first.log", "serving run", first);
  ChildProcess second = here.Serve("b", "second.log");
  WaitFor(here.at / "second.log", "standing by", second);
  const std::string ticket =
      here.Say({"ticket", (here.at / "a").string(), "--uses", std::to_string(kNodes)});
  std::vector<ChildProcess> nodes;
  for (int i = 1; i <= kNodes; ++i) nodes.push_back(here.Join(ticket, i));
  WaitFor(here.at / "a" / "events.jsonl", round, first);

  // The leader is killed.
  kill(first.pid(), SIGKILL);
  WaitFor(here.at / "second.log", "serving run", second);
  WaitFor(here.at / "b" / "events.jsonl", round, second);
  CheckLeader(here);

  // The database is away for a moment.
  database.Stop();
  WaitFor(here.at / "second.log", "_waits", second);
  database.Start();
  WaitFor(here.at / "second.log", "_goes_on", second);

  // The leader stands still for longer than its lease, and goes on when another leads.
  std::string address = TextOf(here.at / "a" / "endpoint");
  address.pop_back();
  ChildProcess third = here.Serve("a", "third.log", address);
  WaitFor(here.at / "third.log", "standing by", third);
  kill(second.pid(), SIGSTOP);
  WaitFor(here.at / "third.log", "serving run", third);
  const std::string events_before = TextOf(here.at / "b" / "events.jsonl");
  kill(second.pid(), SIGCONT);
  CHECK(second.Wait() == "exit code 3");
  CHECK(TextOf(here.at / "second.log").find("another coordinator leads") != std::string::npos);
  CHECK(TextOf(here.at / "b" / "events.jsonl") == events_before);

  const std::string ended = third.Wait();
  INFO(TextOf(here.at / "third.log"));
  CHECK(ended == "exit code 0");
  for (ChildProcess& node : nodes) CHECK(node.Wait() == "exit code 0");
  CHECK(TextOf(here.at / "node1.log").find("coordinator_silent") != std::string::npos);
  CheckRun(here, database);
}

TEST_CASE("Status: who serves a run with a journal of its own, and that nobody does",
          "[coordinator][processes]") {
  const Fixture here;
  const std::string run = (here.at / "a").string();
  here.Say({"init", run, "--config", (here.at / "run.toml").string(), "--data",
            (here.at / "text.txt").string()});
  ChildProcess process = here.Serve("a", "serve.log");
  WaitFor(here.at / "a" / "status.json", "{", process);

  CHECK(here.Say({"status", run}).find("leader: process " + std::to_string(process.pid())) == 0);
  kill(process.pid(), SIGKILL);
  CHECK(process.Wait() != "");
  CHECK(here.Say({"status", run}).find("leader: nobody serves this run") == 0);
}

TEST_CASE(
    "Init: a database that does not answer is known before anything is made, and the next try "
    "goes through",
    "[takeover][postgres]") {
  const Fixture here;
  const PostgresServer server;
  const std::string run = (here.at / "run").string(), shared = (here.at / "shared").string();
  const auto init = [&](const std::string& store) {
    return RunAndCapture({here.Program(), "init", run, "--config", (here.at / "run.toml").string(),
                          "--data", (here.at / "text.txt").string(), "--store", store,
                          "--checkpoints", shared});
  };
  const auto away = init("postgresql://skerry@/postgres?host=" + (here.at / "nobody").string());
  REQUIRE_FALSE(away.ok());
  CHECK_FALSE(fs::exists(run));

  fs::create_directories(shared);
  fs::create_directories(run);
  fs::create_directory_symlink(shared, fs::path(run) / "checkpoints");  // as an older one left it
  const auto made = init(server.Url());

  INFO(made.status());
  REQUIRE(made.ok());
  CHECK(fs::exists(fs::path(run) / "store"));
  CHECK(fs::read_symlink(fs::path(run) / "checkpoints") == shared);
}

TEST_CASE("Mend: a journal that serve refuses can be mended at once: its lead ended with it",
          "[takeover][postgres]") {
  const Fixture here;
  const PostgresServer server;
  const std::string run = (here.at / "run").string();
  here.Say({"init", run, "--config", (here.at / "run.toml").string(), "--data",
            (here.at / "text.txt").string(), "--store", server.Url()});
  server.Ask(
      "INSERT INTO skerry_record(run, number, body, chain, epoch) "
      "SELECT run, 1, 'x', 'x', 1 FROM skerry_run");

  ChildProcess refused = here.Serve("run", "refused");
  CHECK(refused.Wait() == "exit code 1");
  here.Say({"mend", run});

  CHECK(server.Ask("SELECT count(*) FROM skerry_record") == "0");
  CHECK(server.Ask("SELECT count(*) FROM skerry_damaged") == "1");
}
