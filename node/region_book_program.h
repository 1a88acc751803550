// What stands between the loop and the node's actor: it reads along, for the program and its desk.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "model/file_io.h"
#include "node/desk_program.h"
#include "node/say.h"
#include "wire/actor.h"
#include "wire/ticket.h"

namespace skerry {

// Learns regions from Peers on their way to the actor: the shaper asks for them. Tells people what
// the coordinator found when it dialled back, and keeps it for `doctor`. Tells the loop where
// coordinators are, and hears whether there is one that answers.
class RegionBook final : public Actor {
 public:
  using OnWelcome = std::function<void(const NodeId& from, const Welcome& message)>;
  RegionBook(Actor& actor, const Ticket& ticket, std::string reach_file, Desk& desk,
             OnWelcome on_welcome)
      : actor_(actor),
        ticket_(ticket),
        reach_file_(std::move(reach_file)),
        desk_(desk),
        on_welcome_(std::move(on_welcome)) {}
  void OnStart(Context& context) override {
    desk_.BeginToAsk(context.now(), ticket_.endpoint);
    actor_.OnStart(context);
  }
  void OnMessage(Context& context, const NodeId& from, const Message& message) override {
    if (from == ticket_.coordinator) desk_.OnCoordinator(context.now());
    if (const auto* peers = std::get_if<Peers>(&message)) {
      for (const Peer& peer : peers->peers) regions_[peer.id] = peer.region;
    }
    if (const auto* found = std::get_if<Reachability>(&message)) TellReach(*found);
    if (const auto* welcome = std::get_if<Welcome>(&message)) on_welcome_(from, *welcome);
    if (const auto* standing = std::get_if<Standing>(&message)) return desk_.OnStanding(*standing);
    if (const auto* refused = std::get_if<Refused>(&message); refused && refused->waits) {
      if (std::exchange(asks_, refused->reason) != refused->reason) Say(refused->reason);
    }
    actor_.OnMessage(context, from, message);
  }
  void OnTimer(Context& context, TimerId timer) override { actor_.OnTimer(context, timer); }
  void OnJobDone(Context& context, JobId job) override { actor_.OnJobDone(context, job); }
  void OnPeerRestarted(Context& context, const NodeId& peer) override {
    actor_.OnPeerRestarted(context, peer);
  }
  std::string RegionOf(const NodeId& node) const {
    const auto it = regions_.find(node);
    return it == regions_.end() ? "" : it->second;
  }

 private:
  void TellReach(const Reachability& found) {
    if (found == told_) return;
    told_ = found;
    std::string text;
    for (const std::string& line : Explain(found)) {
      Say("network: " + line);
      text += line + "\n";
    }
    ReplaceText(reach_file_, text).IgnoreError();
  }

  Actor& actor_;
  const Ticket& ticket_;
  std::string reach_file_;
  Desk& desk_;
  OnWelcome on_welcome_;
  Reachability told_;
  std::string asks_;  // why it is not admitted yet
  std::map<NodeId, std::string> regions_;
};

}  // namespace skerry
