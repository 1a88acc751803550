#include "sim/packet/packet_plan.h"

#include <algorithm>
#include <span>

#include "common/check.h"
#include "common/status.h"
#include "sim/flow_map.h"
#include "sim/flow_window.h"
#include "sim/max_min.h"

namespace skerry {
namespace {

class PlanMaker {
 public:
  explicit PlanMaker(const NetworkSpec& spec) : spec_(spec), map_(Direct(spec)) {}

  PacketPlan Make() {
    plan_.nodes = map_.node_count();
    plan_.queue = spec_.queue;
    AddLines();
    for (int32_t from = 0; from < plan_.nodes; ++from) {
      for (int32_t to = 0; to < plan_.nodes; ++to)
        plan_.routes.push_back(from == to ? PacketRoute() : MakeRoute(from, to));
    }
    return std::move(plan_);
  }

 private:
  // Relays are real processes here: packets go where they are sent.
  static NetworkSpec Direct(NetworkSpec spec) {
    spec.behind_routers.clear();
    return spec;
  }
  // Under the numbers of FlowMap.
  void AddLines() {
    for (int32_t link = 0; link < map_.link_count(); ++link) {
      const auto index = static_cast<size_t>(map_.index(link));
      double rate = 0;
      switch (map_.kind(link)) {
        case LinkKind::kSiteUp:
          rate = spec_.sites[index].up_bytes_per_s;
          break;
        case LinkKind::kSiteDown:
          rate = spec_.sites[index].down_bytes_per_s;
          break;
        case LinkKind::kPath:
          rate = spec_.paths[index].bytes_per_s;
          break;
        case LinkKind::kLocal:
          rate = spec_.sites[index].local_bytes_per_s;
          break;
        case LinkKind::kPort:
          rate = spec_.sites[static_cast<size_t>(spec_.site_of_node[index])].local_bytes_per_s;
          break;
      }
      plan_.line_bytes_per_s.push_back(rate);
    }
  }

  void AddHop(PacketRoute& route, int32_t line) {
    const double rate = plan_.line_bytes_per_s[static_cast<size_t>(line)];
    if (rate <= 0) return;
    route.hops.push_back({line, Duration(), false});
    const double slowest = route.slowest_bytes_per_s;
    route.slowest_bytes_per_s = slowest > 0 ? std::min(slowest, rate) : rate;
  }

  PacketRoute MakeRoute(int32_t from, int32_t to) {
    const FlowRoute flow = map_.Route(from, to);
    PacketRoute route;
    route.loss = flow.loss;
    route.jitter = flow.jitter;
    // The receiver's line and port come after the way to them.
    const std::span links = std::span(flow.links).first(static_cast<size_t>(flow.link_count));
    auto own = links.end() - 1;
    if (own != links.begin() && map_.kind(*(own - 1)) == LinkKind::kSiteDown) --own;
    for (auto link = links.begin(); link != own; ++link) AddHop(route, *link);
    if (flow.flow_cap != MaxMin::kUnlimited) {
      plan_.line_bytes_per_s.push_back(static_cast<double>(flow.flow_cap) / kPayloadShare);
      AddHop(route, static_cast<int32_t>(plan_.line_bytes_per_s.size()) - 1);
    }
    // Somebody has to carry the delay: where no line limits, one without limit.
    if (route.hops.empty()) route.hops.push_back({flow.links[0], Duration(), false});
    route.hops.back().delay = flow.one_way;
    route.hops.back().lossy = true;
    for (auto link = own; link != links.end(); ++link) AddHop(route, *link);
    return route;
  }

  const NetworkSpec& spec_;
  FlowMap map_;
  PacketPlan plan_;
};

}  // namespace

uint32_t PacketAddress(int32_t node) {
  return kPacketNetwork + static_cast<uint32_t>(node) + 1;
}

std::string PacketAddressText(int32_t node) {
  const uint32_t address = PacketAddress(node);
  return absl::StrFormat("%d.%d.%d.%d", address >> 24, address >> 16 & 255, address >> 8 & 255,
                         address & 255);
}

int32_t PacketNode(uint32_t address, int32_t nodes) {
  const uint32_t number = address - kPacketNetwork - 1;
  return number < static_cast<uint32_t>(nodes) ? static_cast<int32_t>(number) : -1;
}

PacketPlan MakePacketPlan(const NetworkSpec& spec) {
  return PlanMaker(spec).Make();
}

}  // namespace skerry
