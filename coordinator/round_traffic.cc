#include "coordinator/round_traffic.h"

#include "model/parameter_layout.h"

namespace skerry {

int64_t ParametersOf(const TransformerConfig& model, const StageAssignment& stage,
                     bool holds_ends) {
  return ParameterLayout::ForStage(model, stage.first_layer, stage.last_layer, holds_ends).size();
}

RoundTraffic TrafficOfRounds(const RunState& state, const TransformerConfig& model) {
  RoundTraffic sum;
  if (!state.plan) return sum;
  int stages = 0;
  for (size_t s = 0; s < state.plan->stages.size(); ++s) {
    const auto stage = static_cast<int32_t>(s);
    const auto next = state.applied.lower_bound({stage + 1, 0});
    if (next == state.applied.begin() || std::prev(next)->first.first != stage) continue;
    double sent = 0, received = 0, reports = 0;
    for (const auto& [node, applied] : std::prev(next)->second) {
      if (applied.transfer_s <= 0) continue;  // a joiner's: it sent nothing
      sent += static_cast<double>(applied.bytes_sent);
      received += static_cast<double>(applied.bytes_received);
      ++reports;
    }
    if (reports == 0) continue;
    const double bits =
        8 / (reports * static_cast<double>(ParametersOf(model, state.plan->stages[s], stage == 0)));
    sum.bits_up += bits * sent;
    sum.bits_down += bits * received;
    ++stages;
  }
  if (stages > 0) sum = {sum.bits_up / stages, sum.bits_down / stages};
  return sum;
}

}  // namespace skerry
