// The fields of all that a RunState is made of, for whoever writes or reads it whole. A struct that
// gains a field does not compile here until the field is named: nothing can be left out.
#pragma once

#include <concepts>
#include <tuple>
#include <type_traits>

#include "coordinator/run_state.h"
#include "wire/message/message.h"

namespace skerry {

template <typename T, typename U>
concept Is = std::same_as<std::remove_const_t<T>, U>;

auto FieldsOf(Is<DeviceProfile> auto& of) {
  auto& [name, numeric_profile, gflops, memory_bytes, bf16_gflops, network, host_bytes, spill_bytes,
         spill_bytes_per_s, spreads] = of;
  return std::tie(name, numeric_profile, gflops, memory_bytes, bf16_gflops, network, host_bytes,
                  spill_bytes, spill_bytes_per_s, spreads);
}
auto FieldsOf(Is<ReachTry> auto& of) {
  auto& [endpoint, answered] = of;
  return std::tie(endpoint, answered);
}
auto FieldsOf(Is<Reachability> auto& of) {
  auto& [node, seen, tried] = of;
  return std::tie(node, seen, tried);
}
auto FieldsOf(Is<NodeRecord> auto& of) {
  auto& [endpoint, region, ticket, device, alive, relays, declared, reach, software, process] = of;
  return std::tie(endpoint, region, ticket, device, alive, relays, declared, reach, software,
                  process);
}
auto FieldsOf(Is<IssuedTicket> auto& of) {
  auto& [uses, expires_unix, asks] = of;
  return std::tie(uses, expires_unix, asks);
}
auto FieldsOf(Is<Asker> auto& of) {
  auto& [ticket, region, device] = of;
  return std::tie(ticket, region, device);
}
auto FieldsOf(Is<Admission> auto& of) {
  auto& [policy, tickets, revoked, allowed, denied, banned, pardoned, asked, obeyed] = of;
  return std::tie(policy, tickets, revoked, allowed, denied, banned, pardoned, asked, obeyed);
}
auto FieldsOf(Is<RunOrders> auto& of) {
  auto& [paused_at, why, pauses, wanted] = of;
  return std::tie(paused_at, why, pauses, wanted);
}
auto FieldsOf(Is<Traffic> auto& of) {
  auto& [ended_sent, ended_received, sent, received] = of;
  return std::tie(ended_sent, ended_received, sent, received);
}
auto FieldsOf(Is<LinkReading> auto& of) {
  auto& [target, rtt_s, bytes_per_s, is_transfer] = of;
  return std::tie(target, rtt_s, bytes_per_s, is_transfer);
}

auto FieldsOf(Is<LineFinding> auto& of) {
  auto& [members, alone, together] = of;
  return std::tie(members, alone, together);
}

// ---- the plan ----------------------------------------------------------------------------------

auto FieldsOf(Is<StageAssignment> auto& of) {
  auto& [first_layer, last_layer, replicas, shares, remade, cohorts] = of;
  return std::tie(first_layer, last_layer, replicas, shares, remade, cohorts);
}
auto FieldsOf(Is<Slot> auto& of) {
  auto& [stage, replica] = of;
  return std::tie(stage, replica);
}
auto FieldsOf(Is<Joiner> auto& of) {
  auto& [node, since, base_version, from_step, from_round] = of;
  return std::tie(node, since, base_version, from_step, from_round);
}
auto FieldsOf(Is<Absence> auto& of) {
  auto& [stage, round, node] = of;
  return std::tie(stage, round, node);
}
auto FieldsOf(Is<PlannedSettings> auto& of) {
  auto& [inner_steps, overlap_steps, has_codec, codec, sequences_per_microbatch, in_flight, spreads,
         round_s, step_s] = of;
  return std::tie(inner_steps, overlap_steps, has_codec, codec, sequences_per_microbatch, in_flight,
                  spreads, round_s, step_s);
}
auto FieldsOf(Is<SlowLink> auto& of) {
  auto& [from, to] = of;
  return std::tie(from, to);
}
auto FieldsOf(Is<PlanStart> auto& of) {
  auto& [since, round, step] = of;
  return std::tie(since, round, step);
}
auto FieldsOf(Is<PipelinePlan> auto& of) {
  auto& [version, microbatches_per_step, stages, paths, dead, joining, settings, slow_links, absent,
         start] = of;
  return std::tie(version, microbatches_per_step, stages, paths, dead, joining, settings,
                  slow_links, absent, start);
}

// ---- rounds and steps --------------------------------------------------------------------------

auto FieldsOf(Is<Participant> auto& of) {
  auto& [node, tokens, digest] = of;
  return std::tie(node, tokens, digest);
}
auto FieldsOf(Is<RoundCommit> auto& of) {
  auto& [stage, round, participants, shape, table, covered, messages] = of;
  return std::tie(stage, round, participants, shape, table, covered, messages);
}
auto FieldsOf(Is<RoundApplied> auto& of) {
  auto& [stage, round, base_digest, transfer_s, wait_s, screened, bytes_sent, bytes_received] = of;
  return std::tie(stage, round, base_digest, transfer_s, wait_s, screened, bytes_sent,
                  bytes_received);
}
auto FieldsOf(Is<HiddenTime> auto& of) {
  auto& [transfer_us, wait_us] = of;
  return std::tie(transfer_us, wait_us);
}
auto FieldsOf(Is<RunState::Credit> auto& of) {
  auto& [tokens, rounds] = of;
  return std::tie(tokens, rounds);
}
auto FieldsOf(Is<MicrobatchLoss> auto& of) {
  auto& [microbatch, tokens, loss] = of;
  return std::tie(microbatch, tokens, loss);
}
auto FieldsOf(Is<StepLosses> auto& of) {
  auto& [by_microbatch] = of;
  return std::tie(by_microbatch);
}
auto FieldsOf(Is<CheckpointRecord> auto& of) {
  auto& [generation, round, step, tokens, bytes, new_bytes, remade] = of;
  return std::tie(generation, round, step, tokens, bytes, new_bytes, remade);
}

auto FieldsOf(Is<RunState> auto& of) {
  auto& [nodes, lives, started, evicted, admission, orders, traffic, ticket_uses, links, lines,
         plan, predicted_step_s, lower_bound_s, migrations, moved, commits, base_digests, credits,
         applied, hidden, rounds_screened, odd, losses, written_off, tokens, finished, exported,
         checkpoints, generations, resumed, lost, rewinds, rewound_tokens] = of;
  return std::tie(nodes, lives, started, evicted, admission, orders, traffic, ticket_uses, links,
                  lines, plan, predicted_step_s, lower_bound_s, migrations, moved, commits,
                  base_digests, credits, applied, hidden, rounds_screened, odd, losses, written_off,
                  tokens, finished, exported, checkpoints, generations, resumed, lost, rewinds,
                  rewound_tokens);
}

}  // namespace skerry
