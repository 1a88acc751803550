// Who can be dialled: nodes are dialled back, told what that showed, and tested again now and then.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "coordinator/border.h"
#include "coordinator/coordinator_actor.h"
#include "coordinator/listings.h"

namespace skerry {
namespace {

constexpr Duration kTestAgainAfter = Duration::Seconds(600);

}  // namespace

// What a test found holds as long as the node says that it listens at the same place.
void CoordinatorActor::TakeAddress(NodeRecord& record, const Hello& hello) const {
  record.relays = hello.relays;
  if (!options_.tests_reach) {
    record.endpoint = hello.endpoint;
  } else if (record.declared != hello.endpoint || record.declared.empty()) {
    record.declared = hello.endpoint;
    record.endpoint.clear();
    record.reach = {};
  }
}

void CoordinatorActor::TestReach(Context& context, const NodeId& node) {
  auto& dialled = dialled_.at(node);
  dialled.last = context.now();
  context.TryReach(node, dialled.listens);
}

void CoordinatorActor::TestAgain(Context& context) {
  for (auto& [node, dialled] : dialled_) {
    if (context.now() - dialled.last > kTestAgainAfter) TestReach(context, node);
  }
}

// From this process's own host.
void CoordinatorActor::On(Context& context, const NodeId& from, const Reachability& found) {
  const auto dialled = dialled_.find(found.node);
  if (from != context.self() || dialled == dialled_.end()) return void(++refused_);
  const NodeRecord& record = state_.nodes.at(found.node);
  const std::string at = ReachableAt(found);
  // One lost packet is no router.
  const bool was_reachable = record.IsTested() && !record.endpoint.empty();
  if (at.empty() && was_reachable && !std::exchange(dialled->second.doubted, true))
    return TestReach(context, found.node);
  dialled->second.doubted = false;
  const bool moved = !record.IsTested() || record.endpoint != at;
  if (moved || record.reach != found) Record(context, ReachRecord(found));
  context.Send(found.node, found);
  if (moved) {
    context.Event(at.empty() ? "unreachable" : "reachable",
                  EventFields({{"node", found.node.Short()}, {"seen", found.seen}, {"at", at}}));
  }
  if (auto hello = std::exchange(dialled->second.introduces, std::nullopt))
    return Introduce(context, found.node, *hello, dialled->second.peers_changed);
  if (moved && active_.contains(found.node)) PeersChanged(context, found.node);
}

void CoordinatorActor::On(Context& context, const NodeId& from, const LinkReading& message) {
  std::vector<ProbeSchedule::Pair> next;
  if (!IsSane(message)) return void(++refused_);
  if (message.is_transfer) return TookTransfer(context, from, message);
  const bool is_asked = probes_.Answered({from, message.target}, context.now(), next);
  if (!is_asked) {
    // Unasked: what the run's own traffic has shown. That may be a share of the line, so only what
    // is faster than was read is news.
    const auto read = state_.links.find({from, message.target});
    if (read == state_.links.end() || message.bytes_per_s <= read->second.bytes_per_s)
      return void(++refused_);
  }
  LinkReading reading = state_.plan ? ReadUnderLoad(from, message) : message;
  // Machines hold a near link up far more often than they make it look faster: its best reading
  // counts, also after a restart.
  const bool is_near = options_.doubts_uneven && reading.rtt_s < LinkEstimator::kRttFloor;
  const bool keeps_best = is_near && !state_.plan;
  if (keeps_best) {
    const LinkEstimate known = links_.Read(from, reading.target, context.now());
    reading.bytes_per_s = std::max(reading.bytes_per_s, known.bytes_per_s);
  }
  const auto add = !is_asked || keeps_best ? &LinkEstimator::AddShown : &LinkEstimator::Add;
  if (!(links_.*add)(from, reading.target, reading.rtt_s, reading.bytes_per_s, context.now()).ok())
    return void(++refused_);
  ++readings_;
  Record(context, LinkRecord(from, reading));
  // As the plan believes it.
  const LinkEstimate link = links_.Read(from, reading.target, context.now());
  context.Event("link", EventFields({{"from", from.Short()},
                                     {"to", reading.target.Short()},
                                     {"rtt_ms", link.rtt_s * 1e3},
                                     {"mbps", link.bytes_per_s * 8e-6},
                                     {"relayed", IsRelayed(state_, from, reading.target)}}));
  Ask(context, next);
  PlanWhenReady(context);
}

}  // namespace skerry
