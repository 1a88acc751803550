#include "sim/live_faults.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "node/node_actor.h"
#include "sim/swarm_parts.h"

namespace skerry {

int32_t LiveFaults::IndexOf(const NodeId& who) {
  return NumberOf(who) - 1;
}

std::string LiveFaults::NameOf(const NodeId& who) {
  const int32_t index = IndexOf(who);
  return index < 0 ? "the coordinator" : absl::StrFormat("node %d", index + 1);
}

void LiveFaults::Tell(const std::string& what) {
  if (story_ == nullptr) return;
  story_->push_back(
      absl::StrFormat("%.3f s: %s", (simulation().now() - Instant()).seconds(), what));
}

LiveFaults::LinkOf LiveFaults::Over(LinkOf usual) {
  return [this, usual = std::move(usual)](const NodeId& from, const NodeId& to) {
    SimLink link = usual(from, to);
    const auto cut = cut_until_.find({from, to});
    if (cut != cut_until_.end() && run_->simulation().now() < cut->second) link.loss = 1;
    return link;
  };
}

void LiveFaults::Kill(const NodeId& who, std::optional<Duration> away, Disk disk) {
  Tell(NameOf(who) + " is killed" +
       (away ? absl::StrFormat(", back after %.3f s%s", away->seconds(),
                               disk == Disk::kLost ? " without its disk" : "")
             : " for good"));
  const Instant now = simulation().now();
  simulation().CrashAt(now, who);
  if (away) simulation().StartAt(now + *away, who, disk);
}

void LiveFaults::Hang(const NodeId& who, Duration lasts) {
  Tell(absl::StrFormat("%s hangs for %.3f s", NameOf(who), lasts.seconds()));
  simulation().Hang(who, simulation().now(), simulation().now() + lasts);
}

void LiveFaults::CutWay(const NodeId& from, const NodeId& to, Duration lasts) {
  const Instant until = simulation().now() + lasts;
  Instant& known = cut_until_[{from, to}];
  known = std::max(known, until);
  if (simulation().network() == nullptr) return;
  simulation().Cut(from, to, true);
  simulation().At(until, [this, from, to](Simulation& simulation) {
    if (simulation.now() >= cut_until_[{from, to}]) simulation.Cut(from, to, false);
  });
}

void LiveFaults::CutOff(const NodeId& who, Duration lasts) {
  Tell(absl::StrFormat("%s is cut off for %.3f s", NameOf(who), lasts.seconds()));
  const auto nodes = static_cast<int32_t>(run_->options().nodes.size());
  for (int32_t i = -1; i < nodes; ++i) {
    const NodeId other = i < 0 ? VirtualRun::coordinator() : VirtualRun::node(i);
    if (other == who) continue;
    CutWay(who, other, lasts);
    CutWay(other, who, lasts);
  }
}

void LiveFaults::FillDisk(const NodeId& who, Duration lasts) {
  Tell(absl::StrFormat("the disk of %s is full for %.3f s", NameOf(who), lasts.seconds()));
  const Instant until = simulation().now() + lasts;
  full_until_[who] = std::max(full_until_[who], until);
  simulation().FillDisk(who, true);
  simulation().At(until, [this, who](Simulation& simulation) {
    if (simulation.now() >= full_until_[who]) simulation.FillDisk(who, false);
  });
}

void LiveFaults::Leave(const NodeId& who) {
  Tell(NameOf(who) + " leaves");
  simulation().Signal(who, [](Actor& actor, Context& context) {
    static_cast<NodeActor&>(actor).Leave(context, "Ctrl-C");
  });
}

void LiveFaults::SlowDevice(const NodeId& who, double factor, Duration lasts) {
  Tell(absl::StrFormat("the device of %s is %.1f times slower for %.3f s", NameOf(who), factor,
                       lasts.seconds()));
  const Instant until = simulation().now() + lasts;
  slow_until_[who] = std::max(slow_until_[who], until);
  simulation().SlowDevice(who, factor);
  simulation().At(until, [this, who](Simulation& simulation) {
    if (simulation.now() >= slow_until_[who]) simulation.SlowDevice(who, 1);
  });
}

void LiveFaults::JumpClock(const NodeId& who, Duration by) {
  Tell(absl::StrFormat("the clock of %s jumps by %.3f s", NameOf(who), by.seconds()));
  simulation().JumpClock(who, by);
}

void LiveFaults::Lie(const NodeId& who, LieAbout what) {
  const bool of_sums = what == LieAbout::kSums;
  Tell(NameOf(who) + (of_sums ? " sends sums that are none" : " sends deltas that are none"));
  (of_sums ? run_->faults(IndexOf(who)).void_sums : run_->faults(IndexOf(who)).void_deltas) = true;
}

void LiveFaults::FalsifySums(const NodeId& who, double factor, bool covers_up) {
  Tell(absl::StrFormat("%s sends sums that are %g of the true ones%s", NameOf(who), factor,
                       covers_up ? ", and says of what is left over what follows" : ""));
  StageFaults& faults = run_->faults(IndexOf(who));
  faults.false_sums = {factor, false};
  faults.covers_up = covers_up;
}

void LiveFaults::PassOn(const NodeId& who) {
  Tell(NameOf(who) + " sends on what comes as if it had worked on it");
  run_->faults(IndexOf(who)).passes_on = true;
}

}  // namespace skerry
