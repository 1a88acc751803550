// The volunteer's desk while a node runs: the screen on a terminal with its keys, lines now and
// then where there is none, and status.json in the home for `skerry-node status`.
//
// On the thread of the event loop while it runs, else on the program's.
#pragma once

#include <CLI/CLI.hpp>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "node/coordinator_silence.h"
#include "node/node_actor.h"
#include "node/volunteer_screen.h"
#include "wire/event_loop.h"

namespace skerry {

class Desk {
 public:
  Desk(std::filesystem::path home, const NodeId& self, std::string device);
  ~Desk();  // gives the terminal back
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;

  // A stay begins: it asks the coordinator at `endpoint` to be let in.
  void BeginToAsk(Instant now, const std::string& endpoint) { answers_.Begin(now, endpoint); }
  void OnCoordinator(Instant now) { answers_.Heard(now); }
  void OnStanding(const Standing& standing) { view_.standing = standing; }
  // Every second.
  void Tick(Context& context, const NodeActor& actor, const EventLoop& loop);
  // Every second while the node rests, and why.
  void Rest(const std::string& why);
  // It leaves: from now on lines.
  void Close();

 private:
  void Show();
  void ReadKeys();
  void ChangeLimit(double factor);
  void WriteStatus() const;

  std::filesystem::path home_;
  bool has_screen_ = false;
  VolunteerView view_;
  std::vector<std::string> log_;
  std::optional<Instant> began_;
  struct Sample {
    Instant at;
    ClassBytes sent = {}, received = {};
    double busy_s = 0;
  };
  std::deque<Sample> samples_;  // of the last seconds
  std::set<NodeId> punched_;
  CoordinatorSilence answers_;
  int ticks_ = 0;
};

// Before the program ends in haste, also by a signal's handler. What a Desk shows is gone.
void GiveTerminalBack();

// status, pause, resume, leave.
void AddDeskCommands(CLI::App& app, int* exit_code);

}  // namespace skerry
