// A state of which every field differs from that of an empty one, and the check that it is so.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "coordinator/state_bytes.h"

namespace skerry::testing {

template <typename T>
concept IsPair = requires(const T& of) {
  of.first;
  of.second;
};
template <typename T>
concept IsOptional = requires(const T& of) {
  of.has_value();
};
template <typename T>
concept HasElements = requires(const T& of) {
  of.begin();
  of.size();
};

// Whether each field, of each element, is another one than what a struct begins with.
template <typename T>
bool IsFull(const T& value) {
  if constexpr (HasFields<T>) {
    const T empty{};
    return std::apply(
        [&](const auto&... field) {
          return std::apply(
              [&](const auto&... of_empty) {
                return ((!(field == of_empty) && IsFull(field)) && ...);
              },
              FieldsOf(empty));
        },
        FieldsOf(value));
  } else if constexpr (std::is_same_v<T, std::string>) {
    return !value.empty();
  } else if constexpr (IsPair<T>) {
    return IsFull(value.first) && IsFull(value.second);
  } else if constexpr (IsOptional<T>) {
    return value.has_value() && IsFull(*value);
  } else if constexpr (HasElements<T>) {
    if (value.size() == 0) return false;
    for (const auto& element : value) {
      if (!IsFull(element)) return false;
    }
    return true;
  } else {
    return true;  // a number, or one within: its holder compares
  }
}

inline PipelinePlan FullPlan(const NodeId& node) {
  PipelinePlan plan;
  plan.version = 7;
  plan.microbatches_per_step = 4;
  plan.stages = {{1, 3, {node}, {2}, {1, 2}, {5}}};
  plan.paths.push_back({{1, 2}, {3, 4}});
  plan.dead = {node};
  plan.joining = {{node, 1, 2, 3, 4}};
  plan.settings = {16, 2, true, DeltaCodec::kLowRank, 3, 5, true, 40, 7};
  plan.slow_links = {{node, TestNodeId(9)}};
  plan.absent = {{1, 2, node}};
  plan.start = {1, 2, 3};
  return plan;
}

inline void FillAdmission(Admission& admission, const NodeId& node) {
  admission.policy = AdmissionPolicy::kListed;
  admission.tickets["0a"] = {3, -1, true};
  admission.revoked["0b"] = "it leaked";
  admission.allowed = {node};
  admission.denied[node] = "no";
  admission.banned[node] = "it lied";
  admission.pardoned = {node};
  admission.asked[node] = {"0c", "east", "cpu"};
  admission.obeyed = {"17", "18"};
}

inline RunState FullState() {
  const NodeId node = TestNodeId(3), other = TestNodeId(300);
  const Digest digest{{1, 2, 3}};
  RunState state;
  const DeviceProfile device{
      "cpu", "avx2", 12.5, int64_t{1} << 40, 25, "InfiniBand", int64_t{1} << 41, int64_t{1} << 37,
      1e9,   true};
  state.nodes[node] = {"tcp://10.0.0.1:1",
                       "east",
                       "0a",
                       device,
                       false,
                       true,
                       "tcp://10.0.0.2:1",
                       {node, "10.0.0.3", {{"tcp://10.0.0.3:1", true}}},
                       "0.1",
                       ~uint64_t{0}};
  state.lives = 2;
  state.started = {node, other};
  state.evicted = {other};
  FillAdmission(state.admission, node);
  state.orders = {5, "lunch", 2, 6};
  state.traffic[node] = {1, 2, 3, int64_t{1} << 47};
  state.ticket_uses["0a"] = 2;
  state.links[{node, other}] = {other, 0.125, 1e9, true};
  state.lines = {{{node, other}, {2e6, 3e6}, {1e6, 1.5e6}}};
  state.plan = FullPlan(node);
  state.predicted_step_s = 1.5;
  state.lower_bound_s = 1.25;
  state.migrations = 3;
  state.moved[1] = 5;
  state.commits[{1, 2}] = {1, 2, {{node, 64, digest}}, 77, {1, 255, 3}, {2, 1}, {digest}};
  state.base_digests[{1, 2}] = digest;
  state.credits[node] = {64, 1};
  state.applied[{1, 2}][node] = {1, 2, digest, 0.5, 0.25, {other}, 100, 200};
  state.hidden = {500'000, 250'000};
  state.rounds_screened[other] = 4;
  state.odd[other] = "odd";
  state.losses[9].by_microbatch = {{1, {1, 64, 2.5f}}, {3, {3, 32, -0.5f}}};
  state.written_off[8] = {1, 2};
  state.tokens = -96;  // a fold gives what it gives
  state.finished = true;
  state.exported = true;
  state.checkpoints[4] = {4, 8, 16, 32, 64, 128, {1, 3}};
  state.generations = 4;
  state.resumed = true;
  state.lost = {1};
  state.rewinds = 1;
  state.rewound_tokens = 12;
  return state;
}

}  // namespace skerry::testing
