// What a volunteer sees: as text, and by the program itself on a terminal.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "node/coordinator_silence.h"
#include "node/volunteer_screen.h"
#include "sim/child_process.h"
#include "tests/node/lone_volunteer.h"

using namespace skerry;
namespace fs = std::filesystem;

namespace {

VolunteerView Training() {
  VolunteerView view;
  view.node = "ab12cd34";
  view.device = "a processor with a very long name that goes on and on and on and on and on";
  view.look.phase = Phase::kWaitingForPeers;
  view.look.run = "demo";
  view.look.step = 13;
  view.look.steps = 256;
  view.look.inner_steps = 8;
  view.look.base_version = 1;
  view.look.stage = 1;
  view.look.stages = 4;
  view.look.first_layer = 2;
  view.look.last_layer = 4;
  view.look.replicas = 2;
  view.look.peers = 7;
  view.look.waiting_for = "gradient of microbatch 5 from 3fa91234";
  view.standing = {1'500'000, 12'000'000, 3, 8, 16, 13, 0.5};
  view.relayed = 2;
  view.limits = "no limits";
  view.up[1] = 12.5;
  return view;
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("The volunteer's screen says what the node does, waits for and has contributed",
          "[node]") {
  const std::string text = Joined(ScreenLines(Training(), {"one", "two"}, 80, 24));
  CHECK(Has(text, "trains"));
  CHECK(Has(text, "gradient of microbatch 5 from 3fa91234"));
  CHECK(Has(text, "1.50 million tokens (12.5 %), rank 3 of 8, in 16 rounds"));
  CHECK(Has(text, "1 done; the next ends in 3 steps, about 2 s"));
  CHECK(Has(text, "stage 1 (of 0 to 3), layers 2 to 3"));  // counted as everywhere
  CHECK(Has(text, "5 others directly, 2 through a relay"));
  CHECK(Has(text, "12.50"));
  CHECK(Has(text, "two"));
  CHECK(Has(text, "q leave"));
}

TEST_CASE("Status says all that the screen does, from the file that it left", "[node]") {
  VolunteerView view = Training();
  view.look.memory_bytes = 3 << 20;
  view.look.memory_offered = 2'000'000'000;
  const nlohmann::json status = StatusJson(view);
  std::string screen = Joined(ScreenLines(view, {}, 300, 50));
  screen.erase(screen.find("  p pause or go on"));
  const std::string said = StatusText(nlohmann::json::parse(status.dump()));
  std::istringstream lines(screen.substr(screen.find("\n\n")));
  int compared = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    INFO(line << " in\n" << said);
    CHECK(Has(said + "\n", line + "\n"));
    ++compared;
  }
  CHECK(compared >= 12);
  CHECK(status["stage"] == 1);
  CHECK(Has(PlainLine(view), "; stage 1; step 13 of 256"));
}

TEST_CASE("The screen counts in words as people do, and shows where something is cut off",
          "[node]") {
  VolunteerView view = Training();
  view.look.peers = 3;
  view.relayed = 2;
  view.standing.rounds = 1;
  CHECK(Has(Joined(ScreenLines(view, {}, 80, 24)), "1 other directly, 2 through a relay"));
  CHECK(Has(Joined(ScreenLines(view, {}, 80, 24)), "in 1 round\n"));

  const std::string line(100, 'x');
  CHECK(Has(Joined(ScreenLines(view, {line}, 200, 24)), line));
  CHECK(Has(Joined(ScreenLines(view, {line}, 80, 24)), "xx…\n"));
}

TEST_CASE("Who waits for a coordinator that says nothing hears that, once, and for how long",
          "[node]") {
  const auto at = [](double seconds) { return Instant() + Duration::Seconds(seconds); };
  CoordinatorSilence silence;
  silence.Begin(at(5), "tcp://10.0.0.1:7700");
  CHECK(silence.Complaint(at(14)).empty());
  CHECK(Has(silence.Complaint(at(16)), "no answer from tcp://10.0.0.1:7700 yet"));
  CHECK(silence.Complaint(at(30)).empty());
  silence.Heard(at(40));

  VolunteerView view = Training();
  CHECK(silence.SilentFor(at(50), view.look) == 0);
  view.coordinator_silent_s = silence.SilentFor(at(60), view.look);
  CHECK(view.coordinator_silent_s == 20);
  CHECK(Has(PlainLine(view), "from 3fa91234 (the coordinator has said nothing for 20 s)"));
  CHECK(Has(StatusText(StatusJson(view)), "the coordinator has said nothing for 20 s"));
  view.look.phase = Phase::kStandby;
  CHECK(silence.SilentFor(at(60), view.look) == 0);
}

// Where no stage has rounds training goes on without it for ever.
TEST_CASE("Who trains on without a coordinator is told so", "[node]") {
  const auto at = [](double seconds) { return Instant() + Duration::Seconds(seconds); };
  CoordinatorSilence silence;
  silence.Begin(at(0), "tcp://10.0.0.1:7700");
  VolunteerView view = Training();
  view.look.phase = Phase::kTraining;
  view.look.waiting_for.clear();
  CHECK(silence.SilentFor(at(10), view.look) == 0);
  view.coordinator_silent_s = silence.SilentFor(at(20), view.look);
  CHECK(PhaseText(view) == "trains (the coordinator has said nothing for 20 s)");
  CHECK(Has(PlainLine(view), "trains (the coordinator has said nothing for 20 s)"));
}

TEST_CASE("A volunteer sees that the run is paused, by whom and why", "[node]") {
  VolunteerView view = Training();
  view.look.is_paused = true;
  view.look.waiting_for = "run's operator, who paused it: the power is cut";
  const std::string text = Joined(ScreenLines(view, {}, 80, 24));
  CHECK(Has(text, "the run is paused by its operator; nothing is lost"));
  CHECK(Has(text, "who paused it: the power is cut"));
  CHECK(Has(PlainLine(view), "paused by its operator"));
  CHECK(StatusJson(view)["run_paused"] == true);
}

TEST_CASE("A volunteer whom the operator has not let in yet sees whose answer is awaited",
          "[node]") {
  VolunteerView view;
  view.look.awaits_approval = true;
  CHECK(WaitText(view) == "the operator's approval");
  CHECK_FALSE(Has(PhaseText(view), "asks the coordinator"));
  const std::string status = StatusText(StatusJson(view));
  CHECK(Has(status, "of run ?\n"));
  CHECK_FALSE(Has(status, "has not answered"));
}

TEST_CASE("A node's metrics are what its screen shows, and the Grafana file shows all of them",
          "[node]") {
  VolunteerView view = Training();
  view.look.memory_bytes = 1 << 30;
  const std::string text = NodeMetrics(StatusJson(view));
  for (const char* line :
       {"skerry_node_step 13\n", "skerry_node_outer_rounds 1\n", "skerry_node_waiting 1\n",
        "skerry_node_contributed_tokens 1500000\n", "skerry_node_run_paused 0\n",
        "skerry_node_memory_held_bytes 1073741824\n",
        "skerry_node_up_bits_per_second{class=\"pipeline\"} 12500000\n"}) {
    INFO(text);
    CHECK(Has(text, line));
  }
  std::stringstream file;
  file << std::ifstream(SKERRY_PACKAGING "/grafana/skerry.json").rdbuf();
  const auto names = [](const std::string& in) {
    const std::regex name("skerry_node_[a-z_]+");
    return std::set<std::string>(std::sregex_token_iterator(in.begin(), in.end(), name), {});
  };
  CHECK(names(file.str()) == names(text));
}

TEST_CASE("The screen keeps within any terminal", "[node]") {
  const auto [columns, rows] =
      GENERATE(std::pair{80, 24}, std::pair{200, 50}, std::pair{20, 5}, std::pair{1, 1});
  const std::vector<std::string> log(100, "a line of the log with some words in it, ümläüts too");
  const auto lines = ScreenLines(Training(), log, columns, rows);
  CHECK(static_cast<int>(lines.size()) == rows);
  for (const std::string& line : lines) {
    const auto characters = std::count_if(line.begin(), line.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    });
    CHECK(characters <= columns);
  }
}

TEST_CASE("A node that could not write how it is is not called away, and can be told to leave",
          "[node][error]") {
  const testing::LoneVolunteer volunteer;
  auto node = ChildProcess::Start(volunteer.Join(), (volunteer.directory() / "log").string());
  REQUIRE(node.ok());
  while (!Has(volunteer.Text("log"), "joining")) poll(nullptr, 0, 20);
  // As on a full disk: whatever it writes from now on is lost.
  std::error_code is_writing;
  while (!fs::create_directories(volunteer.home() / "status.json.new" / "x", is_writing)) {
  }
  fs::remove(volunteer.home() / "status.json");
  const auto said = RunAndCapture(volunteer.Node("status"));
  CHECK_FALSE(said.ok());
  CHECK_FALSE(Has(said.status().ToString(), "SK-node-away"));
  CHECK(RunAndCapture(volunteer.Node("leave")).ok());
  node->Wait();
}

TEST_CASE("A node that rests says why, and contributes nothing that did not count", "[node]") {
  VolunteerView view = Training();
  view.resting = "it is paused";
  view.standing = {};
  CHECK(PhaseText(view) == "rests: it is paused");
  CHECK(WaitText(view).empty());
  view.look.tokens = 100;
  CHECK(Has(ContributionText(view), "nothing counts yet"));
  const nlohmann::json status = StatusJson(view);
  CHECK(status["contributed_tokens"] == 0);
  CHECK(status["up_mbit"] == Approx(12.5));
  CHECK(Has(StatusText(status), "rests: it is paused"));
  CHECK(Has(PlainLine(view), "step 13 of 256"));
}

namespace {

// skerry-node in a terminal of tmux, with a home of its own and a ticket for nobody.
class InTerminal {
 public:
  InTerminal(int columns, int rows) {
    CommandLine command = volunteer_.Join();
    command.insert(command.end(), {"--up-mbit", "8"});
    const std::string join =
        "env NO_COLOR=1 " + QuoteCommand(command) + "; echo ended with $?; cat";
    REQUIRE(
        Tmux({"new-session", "-d", "-x", std::to_string(columns), "-y", std::to_string(rows), join})
            .ok());
  }
  ~InTerminal() { Tmux({"kill-server"}).IgnoreError(); }

  std::string Screen() { return Tmux({"capture-pane", "-p"}).value_or(""); }
  void Press(const std::string& key) { REQUIRE(Tmux({"send-keys", key}).ok()); }
  // Looks until `text` is there; what is there then.
  std::string Await(const std::string& text) {
    constexpr int kLooksMax = 600;
    std::string screen = Screen();
    for (int look = 0; look < kLooksMax && !Has(screen, text); ++look) {
      poll(nullptr, 0, 100);  // nobody says when tmux has drawn
      screen = Screen();
    }
    INFO(screen);
    CHECK(Has(screen, text));
    return screen;
  }
  fs::path home() const { return volunteer_.home(); }
  std::string Limits() const { return volunteer_.Text(home() / "limits.toml"); }

 private:
  struct Answer {
    absl::StatusOr<std::string> text;
    bool ok() const { return text.ok(); }
    void IgnoreError() const { text.status().IgnoreError(); }
    std::string value_or(const std::string& otherwise) const {
      return text.ok() ? *text : otherwise;
    }
  };
  Answer Tmux(CommandLine arguments) {
    CommandLine command = {"/usr/bin/tmux", "-S", (volunteer_.directory() / "tmux").string(), "-f",
                           "/dev/null"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return {RunAndCapture(command)};
  }
  testing::LoneVolunteer volunteer_;
};

}  // namespace

TEST_CASE("On a terminal of either size the node shows itself, pauses, and leaves at a key",
          "[node]") {
  if (access("/usr/bin/tmux", X_OK) != 0) {
    WARN("tmux is not there: ./dev test installs it");
    return;
  }
  const auto [columns, rows] = GENERATE(std::pair{80, 24}, std::pair{200, 50});
  InTerminal terminal(columns, rows);
  terminal.Await("joining: asks the coordinator");
  CHECK(Has(terminal.Screen(), "q leave"));
  terminal.Press("p");
  terminal.Await("rests: it is paused");
  CHECK(fs::exists(terminal.home() / "paused"));
  terminal.Press("p");
  terminal.Await("joining: asks the coordinator");
  // Half of what it was, twice that, none: followed at once, and kept.
  terminal.Await("up 8 Mbit/s");
  terminal.Press("-");
  terminal.Await("up 4 Mbit/s");
  CHECK(Has(terminal.Limits(), "up_mbit = 4"));
  terminal.Press("+");
  terminal.Await("up 8 Mbit/s");
  terminal.Press("0");
  terminal.Await("limits      none");
  CHECK_FALSE(Has(terminal.Limits(), "up_mbit"));
  terminal.Press("q");
  const std::string after = terminal.Await("ended with 0");
  CHECK_FALSE(Has(after, "q leave"));  // the screen is given back
}
