// Which nodes share a line is measured once their links are, before the plan.
#include <map>
#include <nlohmann/json.hpp>

#include "coordinator/border.h"
#include "coordinator/coordinator_actor.h"

namespace skerry {
namespace {

std::string LineFields(const LineFinding& finding) {
  nlohmann::json nodes = nlohmann::json::array(), alone = nodes, together = nodes, sharing = nodes;
  for (size_t i = 0; i < finding.members.size(); ++i) {
    nodes.push_back(finding.members[i].Short());
    alone.push_back(finding.alone[i] * 8e-6);
    together.push_back(finding.together[i] * 8e-6);
  }
  for (const size_t i : finding.Sharing()) sharing.push_back(nodes[i]);
  return EventFields({{"nodes", nodes},
                      {"alone_mbps", alone},
                      {"together_mbps", together},
                      {"sharing", sharing},
                      {"mbps", finding.bytes_per_s() * 8e-6}});
}

}  // namespace

// True: the plan waits for it.
bool CoordinatorActor::TestLines(Context& context, const std::vector<NodeId>& nodes) {
  if (!options_.tests_lines) return false;
  if (line_tests_.IsOver() && !line_tests_.HasBegun(nodes)) {
    std::map<NodeId, std::string> addresses;
    for (const NodeId& node : nodes) {
      const std::string& seen = state_.nodes.at(node).reach.seen;
      if (!seen.empty()) addresses[node] = seen;
    }
    line_tests_.Begin(links_.Estimate(nodes, context.now()), std::move(addresses), context.now(),
                      options_.config.cluster.is_on());
  }
  for (const LineTesting::Transfer& transfer : line_tests_.Next(context.now())) {
    Introduce(context, transfer.from, {transfer.target});
    context.Send(transfer.from, ProbeRequest{transfer.target, transfer.bytes, true});
  }
  return !line_tests_.IsOver();
}

void CoordinatorActor::TookTransfer(Context& context, const NodeId& from,
                                    const LinkReading& reading) {
  if (!line_tests_.Answered(from, reading.target, reading.bytes_per_s)) return void(++refused_);
  if (const auto finding = line_tests_.TakeFinding()) {
    links_.AddLine(*finding);
    Record(context, LineRecord(*finding));
    context.Event("line", LineFields(*finding));
  }
  PlanWhenReady(context);
}

}  // namespace skerry
