#include "pipeline/plan/exchange.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "pipeline/plan/outer_choice.h"
#include "routing/round_cost.h"

namespace skerry {
namespace {

// What leaves through one access line. Of several nodes, only what goes beyond them: they send it
// at the same time, as all stages come to a boundary together.
struct Line {
  double busy_s = 0;           // a step, with activations and gradients
  double seconds_per_bit = 0;  // of all their deltas
  int32_t slots = 0;           // that leave through it
};

bool IsMeasured(const PlacementProblem& problem, const Placement& placement, size_t slot) {
  const std::vector<int32_t>& line_of = problem.fleet.line_of;
  return !line_of.empty() && line_of[static_cast<size_t>(placement[slot])] >= 0;
}

// By slot, which line it leaves through. Where that was not measured (Fleet::line_of) one who is so
// near another as only nodes of one local network are shares the other's. A wrong guess is one of
// machines that a provider put side by side and gave a line each; then δ is longer than it need be.
std::vector<size_t> LineOfSlots(const PlacementProblem& problem, const Placement& placement) {
  std::vector<size_t> line(placement.size());
  const auto shares = [&](size_t a, size_t b) {
    if (IsMeasured(problem, placement, a) && IsMeasured(problem, placement, b))
      return problem.fleet.LineOf(placement[a], placement[b]) < 0;
    const double there = problem.fleet.latency_s[problem.fleet.Pair(placement[a], placement[b])];
    const double back = problem.fleet.latency_s[problem.fleet.Pair(placement[b], placement[a])];
    return std::max(there, back) <= kLocalLatencyS;
  };
  for (size_t slot = 0; slot < placement.size(); ++slot) {
    line[slot] = slot;
    for (size_t other = 0; other < slot; ++other) {
      if (line[other] == line[slot] || !shares(slot, other)) continue;
      const auto [kept, gone] = std::minmax(line[slot], line[other]);
      std::replace(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(slot) + 1, gone, kept);
    }
  }
  return line;
}

// Seconds a step keeps the uplink of each slot busy with activations and gradients; what does not
// leave its line is of no account in `lines`.
std::vector<double> UplinkSeconds(const PlacementProblem& problem, const Placement& placement,
                                  const std::vector<size_t>& line_of, std::vector<Line>* lines) {
  const Workload& workload = problem.workload;
  std::vector<double> seconds(placement.size());
  const auto send = [&](int32_t from, int32_t to) {
    if (from == to) return;
    const auto sender = static_cast<size_t>(from), receiver = static_cast<size_t>(to);
    const size_t pair = problem.fleet.Pair(placement[sender], placement[receiver]);
    seconds[sender] += problem.fleet.wire_s[pair] / workload.steps;
    if (line_of[sender] == line_of[receiver]) return;
    (*lines)[line_of[sender]].busy_s +=
        problem.fleet.LineSeconds(placement[sender], placement[receiver]) / workload.steps;
  };
  for (const Workload::Microbatch& microbatch : workload.microbatches) {
    int32_t last = microbatch.slots.back();
    for (const int32_t slot : microbatch.slots) {
      send(last, slot);
      send(slot, last);
      last = slot;
    }
  }
  return seconds;
}

struct SlotExchange {
  size_t slot = 0;  // the speaker's
  Exchange exchange;
};

// As if everybody had a line of its own; what shared lines carry goes to `lines`.
std::vector<SlotExchange> AloneExchanges(const PlacementProblem& problem,
                                         const Placement& placement,
                                         const std::vector<size_t>& line_of, double encoded_bits,
                                         std::vector<Line>* lines) {
  std::vector<SlotExchange> exchanges;
  const std::shared_ptr<const NodeLines> node_lines = LinesOfProblem(problem);
  const std::vector<std::vector<int32_t>> slots_of = SlotsByStage(problem.workload);
  for (size_t stage = 0; stage < slots_of.size(); ++stage) {
    const auto cohorts = CohortsAmong(problem, placement, slots_of[stage]);
    if (cohorts.size() < 2) continue;
    const RoundAmounts amounts = problem.outer.ToEach(stage, cohorts.size());
    const double to_each = amounts.all() / encoded_bits;
    const auto costs = SpeakerCosts(problem, *node_lines, placement, cohorts);
    for (size_t i = 0; i < cohorts.size(); ++i) {
      const RoundTime time =
          TimeOfRound(costs[i], amounts, cohorts.size(), problem.fleet.handling_s);
      const auto slot = static_cast<size_t>(cohorts[i].front());
      Exchange exchange;
      exchange.seconds_per_bit = time.legs_s / encoded_bits;
      exchange.latency_s = time.latency_s;
      exchange.after_s_per_bit = time.after_s / encoded_bits;
      exchange.boundaries_per_bit = to_each * static_cast<double>(cohorts.size() - 1);
      exchanges.push_back({slot, exchange});
      for (const std::vector<int32_t>& cohort : cohorts) {
        const auto other = static_cast<size_t>(cohort.front());
        if (line_of[slot] == line_of[other]) continue;
        (*lines)[line_of[slot]].seconds_per_bit +=
            to_each * problem.fleet.LineSeconds(placement[slot], placement[other]);
      }
    }
  }
  return exchanges;
}

}  // namespace

std::vector<Exchange> ExchangesOf(const PlacementProblem& problem, const Placement& placement,
                                  double step_s, double encoded_bits) {
  const std::vector<size_t> line_of = LineOfSlots(problem, placement);
  std::vector<Line> lines(placement.size());
  for (const size_t line : line_of) ++lines[line].slots;
  const std::vector<double> uplink = UplinkSeconds(problem, placement, line_of, &lines);
  const auto free_of = [&](double busy_s) { return std::max(kUplinkFreeMin, 1 - busy_s / step_s); };
  std::vector<Exchange> exchanges;
  for (auto& [slot, exchange] : AloneExchanges(problem, placement, line_of, encoded_bits, &lines)) {
    const Line& line = lines[line_of[slot]];
    exchange.uplink_free = free_of(uplink[slot]);
    exchange.seconds_per_bit /= exchange.uplink_free;
    exchange.alone_s_per_bit = exchange.seconds_per_bit;
    const double shared_s = line.slots > 1 ? line.seconds_per_bit / free_of(line.busy_s) : 0;
    if (shared_s > exchange.seconds_per_bit) {
      exchange.seconds_per_bit = shared_s;
      exchange.uplink_free = free_of(line.busy_s);
      if (IsMeasured(problem, placement, slot)) exchange.alone_s_per_bit = shared_s;
    }
    exchanges.push_back(exchange);
  }
  return exchanges;
}

const Exchange* Slowest(const std::vector<Exchange>& exchanges, double bits, int64_t fragments) {
  const auto slowest =
      std::max_element(exchanges.begin(), exchanges.end(), [&](const auto& a, const auto& b) {
        return a.Seconds(bits, fragments) < b.Seconds(bits, fragments);
      });
  return slowest == exchanges.end() ? nullptr : &*slowest;
}

}  // namespace skerry
