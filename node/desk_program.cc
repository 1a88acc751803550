#include "node/desk_program.h"

#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "common/cli_program.h"
#include "common/status.h"
#include "common/terminal.h"
#include "model/file_io.h"
#include "node/home_lock_program.h"
#include "node/join_program.h"
#include "node/limits_program.h"
#include "node/say.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLogLines = 100;
constexpr size_t kSamples = 6;   // rates are of five seconds
constexpr int kPlainEvery = 60;  // seconds
constexpr double kBitsPerMbit = 1e6;
constexpr double kFreshS = 5;

termios g_before;  // of the terminal
volatile sig_atomic_t g_raw = 0;

// While no loop answers to signals.
void OnSignal(int) {
  GiveTerminalBack();
  constexpr int kInterrupted = 130;
  _exit(kInterrupted);
}

bool TakeTerminal() {
  const char* term = std::getenv("TERM");
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) return false;
  if (term == nullptr || std::string(term) == "dumb") return false;
  if (tcgetattr(STDIN_FILENO, &g_before) != 0) return false;
  termios raw = g_before;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0) return false;
  g_raw = 1;
  std::atexit(GiveTerminalBack);
  std::signal(SIGINT, OnSignal);
  std::signal(SIGTERM, OnSignal);
  std::printf("\x1b[?1049h\x1b[?25l");
  return true;
}

bool HasColours() {
  const char* none = std::getenv("NO_COLOR");
  return none == nullptr || *none == '\0';
}

}  // namespace

void GiveTerminalBack() {
  if (g_raw == 0) return;
  g_raw = 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &g_before);
  constexpr char kBack[] = "\x1b[?25h\x1b[?1049l";
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, kBack, sizeof kBack - 1);
}

Desk::Desk(fs::path home, const NodeId& self, std::string device) : home_(std::move(home)) {
  view_.node = self.Short();
  view_.device = std::move(device);
  has_screen_ = !SaysJson() && TakeTerminal();
  if (!has_screen_) return;
  SetSayer([this](const std::string& line) {
    log_.push_back(line);
    if (log_.size() > kLogLines) log_.erase(log_.begin());
    if (samples_.empty()) Show();
  });
  Show();
}

Desk::~Desk() {
  Close();
}

void Desk::Close() {
  if (!has_screen_) return;
  has_screen_ = false;
  SetSayer({});
  GiveTerminalBack();
  constexpr size_t kTold = 12;
  const size_t first = log_.size() - std::min(log_.size(), kTold);
  for (size_t i = first; i < log_.size(); ++i) Say(log_[i]);
  Say(PlainLine(view_));
}

void Desk::Show() {
  const TerminalSize terminal = TerminalAt(STDOUT_FILENO).value_or(TerminalSize());
  std::string frame = "\x1b[H";
  const auto lines = ScreenLines(view_, log_, terminal.columns, terminal.rows);
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool bold = HasColours() && (i == 0 || i + 1 == lines.size());
    frame += (bold ? "\x1b[1m" : "") + lines[i] + (bold ? "\x1b[0m" : "") + "\x1b[K";
    if (i + 1 < lines.size()) frame += "\r\n";
  }
  std::fputs((frame + "\x1b[J").c_str(), stdout);
  std::fflush(stdout);
}

void Desk::Tick(Context& context, const NodeActor& actor, const EventLoop& loop) {
  const bool was_paused = view_.look.is_paused;
  view_.look = actor.Look();
  view_.resting.clear();
  view_.coordinator_silent_s = answers_.SilentFor(context.now(), view_.look);
  if (const std::string complaint = answers_.Complaint(context.now()); !complaint.empty())
    Say(complaint);
  view_.relayed = static_cast<int32_t>(loop.Relayed().size());
  std::set<NodeId> punched = loop.Punched();
  for (const NodeId& peer : punched) {
    if (!punched_.contains(peer))
      Say(peer.Short() + " is reached directly now, through both routers");
  }
  punched_ = std::move(punched);
  view_.punched = static_cast<int32_t>(punched_.size());
  const auto limits = LoadLimits((home_ / kLimitsFile).string());
  view_.limits = limits.ok() ? Describe(*limits) : ErrorText(limits.status());
  if (!began_) began_ = context.now();
  view_.since_s = (context.now() - *began_).seconds();
  samples_.push_back({context.now(), view_.look.sent, view_.look.received, view_.look.busy_s});
  if (samples_.size() > kSamples) samples_.pop_front();
  const Sample& first = samples_.front();
  const Sample& last = samples_.back();
  if (const double seconds = (last.at - first.at).seconds(); seconds > 0) {
    const auto rate = [&](int64_t before, int64_t now) {
      return std::max(0.0, 8 * static_cast<double>(now - before) / seconds / kBitsPerMbit);
    };
    for (size_t i = 0; i < kTrafficClasses; ++i) {
      view_.up[i] = rate(first.sent[i], last.sent[i]);
      view_.down[i] = rate(first.received[i], last.received[i]);
    }
    view_.busy_share = std::clamp((last.busy_s - first.busy_s) / seconds, 0.0, 1.0);
  }
  view_.peak_up = std::max(view_.peak_up, std::accumulate(view_.up.begin(), view_.up.end(), 0.0));
  view_.peak_down =
      std::max(view_.peak_down, std::accumulate(view_.down.begin(), view_.down.end(), 0.0));
  WriteStatus();
  if (has_screen_) {
    ReadKeys();
    Show();
  } else if (++ticks_ % kPlainEvery == 0 || was_paused != view_.look.is_paused) {
    SayFigures(PlainLine(view_), SaysJson() ? StatusJson(view_).dump() : "");
  }
}

void Desk::Rest(const std::string& why) {
  view_.resting = why;
  view_.up = view_.down = {};
  view_.busy_share = 0;
  samples_.clear();
  WriteStatus();
  if (!has_screen_) return;
  ReadKeys();
  Show();
}

void Desk::ReadKeys() {
  char keys[16];
  const ssize_t count = read(STDIN_FILENO, keys, sizeof keys);
  for (ssize_t i = 0; i < count; ++i) {
    std::error_code none;
    if (keys[i] == 'p' && !fs::remove(home_ / kPausedFile, none))
      std::ofstream(home_ / kPausedFile);
    if (keys[i] == 'q') {
      if (!view_.resting.empty()) GiveTerminalBack();  // no loop is there to answer
      kill(getpid(), SIGINT);
    }
    if (keys[i] == '-') ChangeLimit(0.5);
    if (keys[i] == '+') ChangeLimit(2);
    if (keys[i] == '0') ChangeLimit(0);
  }
}

// Of both directions; without a limit the most that was seen is what is halved.
void Desk::ChangeLimit(double factor) {
  const std::string file = (home_ / kLimitsFile).string();
  auto limits = LoadLimits(file);
  if (!limits.ok()) return Say(ErrorText(limits.status()));
  constexpr double kLeast = 0.1;
  const auto change = [&](double limit, double seen) {
    const double from = limit > 0 ? limit : factor < 1 ? seen : 0;
    if (from <= 0 || factor <= 0) return 0.0;
    return std::max(kLeast, std::round(10 * from * factor) / 10);
  };
  limits->up_mbit = change(limits->up_mbit, view_.peak_up);
  limits->down_mbit = change(limits->down_mbit, view_.peak_down);
  const absl::Status saved = SaveLimits(file, *limits);
  if (!saved.ok()) Say(ErrorText(saved));
}

void Desk::WriteStatus() const {
  nlohmann::json status = StatusJson(view_);
  status["process"] = getpid();
  ReplaceText(home_ / "status.json",
              status.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n")
      .IgnoreError();
}

namespace {

bool NodeRunsIn(const fs::path& home) {
  return absl::IsFailedPrecondition(HomeLock::Look(home.string()));
}

// Of the node that runs in this home.
absl::StatusOr<nlohmann::json> RunningStatus(const fs::path& home) {
  const fs::path file = home / "status.json";
  std::ifstream in(file);
  auto status = nlohmann::json::parse(in, nullptr, false);
  std::error_code error;
  const auto written = fs::last_write_time(file, error);
  if (!NodeRunsIn(home)) {
    return NotFound("no node runs in %s; start one: skerry-node join TICKET [SK-node-away]",
                    home.string());
  }
  if (error || !status.is_object()) {
    return Unavailable(
        "a node runs in %s, and has not written how it is: it has only begun, or the disk is full "
        "[SK-disk-write]",
        home.string());
  }
  const double age_s =
      std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count();
  status["age_s"] = age_s;
  if (age_s > kFreshS) status["phase"] = absl::StrFormat("has said nothing for %.0f s", age_s);
  return status;
}

absl::Status PrintStatus(const std::string& home, bool json) {
  SKERRY_ASSIGN_OR_RETURN(const nlohmann::json status, RunningStatus(NodeHome(home)));
  std::printf("%s", json ? (status.dump(2) + "\n").c_str() : StatusText(status).c_str());
  return absl::OkStatus();
}

// What keeps a node from working that is not paused; "": nothing.
std::string WhyItRestsStill(const fs::path& home) {
  const auto status = RunningStatus(home);
  const std::string resting = status.ok() ? status->value("resting", "") : "";
  if (!resting.empty() && !resting.starts_with("it is paused")) return resting;
  const auto limits = LoadLimits((home / kLimitsFile).string());
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return limits.ok() ? WhyRest(*limits, DayBudget(), 0, 60 * local.tm_hour + local.tm_min) : "";
}

absl::Status Pause(const std::string& given, bool paused) {
  const fs::path home = NodeHome(given);
  std::error_code error;
  if (paused) fs::create_directories(home, error);
  if (paused && !std::ofstream(home / kPausedFile)) {
    return Unavailable("%s: cannot be written [SK-disk-write]", home.string());
  }
  if (!paused) fs::remove(home / kPausedFile, error);
  if (!NodeRunsIn(home)) {
    std::printf("no node runs in %s now; one that joins there %s\n", home.c_str(),
                paused ? "waits for skerry-node resume" : "begins at once");
    return absl::OkStatus();
  }
  const std::string rests = paused ? "" : WhyItRestsStill(home);
  if (!rests.empty()) {
    std::printf("not paused, but the node rests still: %s\n", rests.c_str());
    return absl::OkStatus();
  }
  std::printf(paused ? "paused: the node leaves its run within seconds and waits\n"
                     : "not paused: a node that waited joins again\n");
  return absl::OkStatus();
}

absl::Status TellToLeave(const std::string& home) {
  const auto status = RunningStatus(NodeHome(home));
  if (absl::IsNotFound(status.status())) return status.status();
  const int process = status.ok() ? status->value("process", 0) : HomeLock::Process(NodeHome(home));
  if (process <= 1 || kill(process, SIGINT) != 0) {
    return Unavailable("process %d cannot be told to leave [SK-node-away]", process);
  }
  std::printf("process %d was told to leave\n", process);
  return absl::OkStatus();
}

}  // namespace

void AddDeskCommands(CLI::App& app, int* exit_code) {
  struct Options {
    std::string home;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  const auto add = [&](const char* name, const char* what, auto run) {
    auto* command = app.add_subcommand(name, what);
    command->add_option("--home", options->home, "as of join");
    command->callback(
        [options, exit_code, run] { *exit_code = EndedWith("skerry-node", run(*options)); });
    return command;
  };
  add("status", "what the node of this home is doing, and what it has contributed",
      [](const Options& o) { return PrintStatus(o.home, o.json); })
      ->add_flag("--json", options->json, "for programs");
  add("pause", "the node leaves its run and waits",
      [](const Options& o) { return Pause(o.home, true); });
  add("resume", "it joins again", [](const Options& o) { return Pause(o.home, false); });
  add("leave", "the node of this home leaves its run and ends, as with Ctrl-C",
      [](const Options& o) { return TellToLeave(o.home); });
}

}  // namespace skerry
