// What the journal of a run says, as text for people and as JSON for programs: `nodes`, `plan`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "compression/codec_table.h"
#include "coordinator/run_state.h"

namespace skerry {

// {"mode", "inner_steps", "overlap_steps", "fragments", "codec"}: τ, δ, P, and how deltas travel.
nlohmann::json OuterJson(const OuterConfig& outer);

// "int8 12.0 %, ternary 88.0 %": the share of a stage's values that each codec of a table has.
std::string TableText(const CodecTable& table);

// The newest table of every stage that has one: stage, round (whose commit named it), codecs
// (codec, parts, values), text.
nlohmann::json TablesJson(const RunState& state);
// "codecs of stage 0, chosen in round 9: int8 12.0 %, ternary 88.0 %", from the above.
std::vector<std::string> TableLines(const nlohmann::json& tables);

// "odd", "disputed" or "" (coordinator/boundary_watch.h).
std::string OddnessOf(const RunState& state, const NodeId& node);
int64_t RoundsScreened(const RunState& state, const NodeId& node);

// What a status says of a node beyond the moment: device, memory_offered_bytes, software, reach (in
// words), rounds_counted (its delta was accepted in), rounds_screened, sizes (OddnessOf), out (the
// run or its operator put it out; why is for the operator).
void AddNodeFacts(const RunState& state, const NodeId& node, nlohmann::json* json);

// One object a node: id (whole), region, endpoint ("": nobody can dial it), reachable (in words),
// seen (where its connection comes from), relays (it forwards for others), device, gflops,
// memory_bytes (what it offers, host_memory_bytes besides), alive, and stage and replica (−1
// without a slot), takes_part, is
// ("here", "standby", "gone"; "too old": a standby whose program does not know the plan's ways),
// memory_model_bytes (what the memory model says of its slot, null
// without one) and memory_held_bytes (the most its stage has held, from the status of a served run;
// null: not known), rounds_screened (in which a robust mode gave its delta little or no weight),
// sizes (OddnessOf).
// `config` as the operator wrote it; `status` may be null.
nlohmann::json NodesJson(const RunState& state, const RunConfig& config,
                         const nlohmann::json& status);

// Pairs of nodes that are here of which neither can be dialled, and what forwards for them unless
// it fails (zero: the coordinator); of many the first kRelayedListedMax.
inline constexpr size_t kRelayedListedMax = 1000;
struct RelayedPair {
  NodeId a, b, relay;
};
std::vector<RelayedPair> RelayedPairs(const RunState& state);
int64_t CountRelayedPairs(const RunState& state);
bool IsRelayed(const RunState& state, const NodeId& a, const NodeId& b);

// version, predicted_step_s, lower_bound_s, stages (layers, replicas with dead ones marked), paths,
// chosen (inner_steps, overlap_steps, codec: what the planner chose, null where the operator did),
// slow_links (from, to), relayed (a, b, relay: an id or "coordinator"), tables (TablesJson); null
// without a plan.
// With `config` as the operator wrote it.
nlohmann::json PlanJson(const RunState& state, const RunConfig& config);
std::string PlanText(const RunState& state, const RunConfig& config);

}  // namespace skerry
