#include "coordinator/round_traffic.h"

#include <algorithm>
#include <optional>

#include "model/parameter_layout.h"

namespace skerry {

int64_t ParametersOf(const TransformerConfig& model, const StageAssignment& stage,
                     bool holds_ends) {
  return ParameterLayout::ForStage(model, stage.first_layer, stage.last_layer, holds_ends).size();
}

namespace {

// Of one replica in that round, bytes; nothing: nobody says.
std::optional<RoundTraffic> BytesOf(const std::map<NodeId, RoundApplied>& reports) {
  double sent = 0, received = 0, count = 0;
  for (const auto& [node, applied] : reports) {
    if (applied.transfer_s <= 0) continue;  // a joiner's: it sent nothing
    sent += static_cast<double>(applied.bytes_sent);
    received += static_cast<double>(applied.bytes_received);
    ++count;
  }
  if (count == 0) return std::nullopt;
  return RoundTraffic{sent / count, received / count};
}

}  // namespace

RoundTraffic TrafficOfRounds(const RunState& state, const TransformerConfig& model,
                             int64_t fragments) {
  RoundTraffic sum;
  if (!state.plan) return sum;
  int stages = 0;
  for (size_t s = 0; s < state.plan->stages.size(); ++s) {
    const auto stage = static_cast<int32_t>(s);
    const auto next = state.applied.lower_bound({stage + 1, 0});
    if (next == state.applied.begin() || std::prev(next)->first.first != stage) continue;
    const int64_t last = std::prev(next)->first.second;
    const double bits =
        8 / static_cast<double>(ParametersOf(model, state.plan->stages[s], stage == 0));
    bool any = false;
    for (int64_t round = std::max<int64_t>(0, last - fragments + 1); round <= last; ++round) {
      const auto reports = state.applied.find({stage, round});
      if (reports == state.applied.end()) continue;
      const auto bytes = BytesOf(reports->second);
      if (!bytes) continue;
      any = true;
      sum.bits_up += bits * bytes->bits_up;
      sum.bits_down += bits * bytes->bits_down;
    }
    if (any) ++stages;
  }
  if (stages > 0) sum = {sum.bits_up / stages, sum.bits_down / stages};
  return sum;
}

}  // namespace skerry
