// Journal records are JSON: readable by people and by other tools, forward compatible by key.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "common/ids.h"
#include "coordinator/run_state.h"
#include "wire/message/message.h"

namespace skerry {

template <typename Id>
std::optional<Id> ParseId(const std::string& hex) {
  Id id;
  if (hex.size() != 2 * id.bytes.size()) return std::nullopt;
  for (size_t i = 0; i < id.bytes.size(); ++i) {
    unsigned value = 0;
    for (const char c : {hex[2 * i], hex[2 * i + 1]}) {
      if (c >= '0' && c <= '9') {
        value = value * 16 + static_cast<unsigned>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        value = value * 16 + static_cast<unsigned>(c - 'a' + 10);
      } else {
        return std::nullopt;
      }
    }
    id.bytes[i] = static_cast<uint8_t>(value);
  }
  return id;
}

template <typename Tag>
void to_json(nlohmann::json& json, const Id256<Tag>& id) {
  json = id.Hex();
}
// A text that is no id fails as any value of the wrong type does: with the library's own exception,
// which RunState::Apply catches at its border.
template <typename Tag>
void from_json(const nlohmann::json& json, Id256<Tag>& id) {
  const auto parsed = ParseId<Id256<Tag>>(json.get<std::string>());
  if (!parsed) return static_cast<void>(json.get<double>());
  id = *parsed;
}

// Older journals know no rate in bf16. What most do not have is left out.
inline void to_json(nlohmann::json& json, const DeviceProfile& device) {
  json = {{"name", device.name},
          {"numeric_profile", device.numeric_profile},
          {"gflops", device.gflops},
          {"memory_bytes", device.memory_bytes},
          {"bf16_gflops", device.bf16_gflops}};
  if (!device.network.empty()) json["network"] = device.network;
  if (device.host_bytes > 0) json["host_bytes"] = device.host_bytes;
  if (device.spill_bytes > 0) json["spill_bytes"] = device.spill_bytes;
  if (device.spill_bytes_per_s > 0) json["spill_bytes_per_s"] = device.spill_bytes_per_s;
  if (device.spreads) json["spreads"] = true;
}
inline void from_json(const nlohmann::json& json, DeviceProfile& device) {
  device.name = json.value("name", "");
  device.numeric_profile = json.value("numeric_profile", "");
  device.gflops = json.value("gflops", 0.0);
  device.memory_bytes = json.value("memory_bytes", int64_t{0});
  device.bf16_gflops = json.value("bf16_gflops", 0.0);
  device.network = json.value("network", "");
  device.host_bytes = json.value("host_bytes", int64_t{0});
  device.spill_bytes = json.value("spill_bytes", int64_t{0});
  device.spill_bytes_per_s = json.value("spill_bytes_per_s", 0.0);
  device.spreads = json.value("spreads", false);
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Slot, stage, replica)
// Older journals know no shares.
inline void to_json(nlohmann::json& json, const StageAssignment& stage) {
  json = {{"first_layer", stage.first_layer},
          {"last_layer", stage.last_layer},
          {"replicas", stage.replicas},
          {"shares", stage.shares},
          {"remade", stage.remade}};
  if (!stage.cohorts.empty()) json["cohorts"] = stage.cohorts;
}
inline void from_json(const nlohmann::json& json, StageAssignment& stage) {
  stage.first_layer = json.value("first_layer", 0);
  stage.last_layer = json.value("last_layer", 0);
  if (json.contains("replicas")) json.at("replicas").get_to(stage.replicas);
  if (json.contains("shares")) json.at("shares").get_to(stage.shares);
  if (json.contains("remade")) json.at("remade").get_to(stage.remade);
  if (json.contains("cohorts")) json.at("cohorts").get_to(stage.cohorts);
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(PlannedSettings, inner_steps, overlap_steps,
                                                has_codec, codec, sequences_per_microbatch,
                                                in_flight, spreads, round_s, step_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SlowLink, from, to)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlanStart, since, round, step)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Absence, stage, round, node)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Joiner, node, since, base_version, from_step, from_round)

inline void to_json(nlohmann::json& json, const PipelinePlan& plan) {
  json = {{"version", plan.version},   {"microbatches_per_step", plan.microbatches_per_step},
          {"stages", plan.stages},     {"paths", plan.paths},
          {"dead", plan.dead},         {"joining", plan.joining},
          {"settings", plan.settings}, {"slow_links", plan.slow_links},
          {"absent", plan.absent}};
  if (plan.start.since > 0) json["start"] = plan.start;
}
// Older journals name no joiners and no settings.
inline void from_json(const nlohmann::json& json, PipelinePlan& plan) {
  json.at("version").get_to(plan.version);
  json.at("microbatches_per_step").get_to(plan.microbatches_per_step);
  json.at("stages").get_to(plan.stages);
  json.at("paths").get_to(plan.paths);
  json.at("dead").get_to(plan.dead);
  if (json.contains("joining")) json.at("joining").get_to(plan.joining);
  if (json.contains("settings")) json.at("settings").get_to(plan.settings);
  if (json.contains("slow_links")) json.at("slow_links").get_to(plan.slow_links);
  if (json.contains("start")) json.at("start").get_to(plan.start);
  if (json.contains("absent")) json.at("absent").get_to(plan.absent);
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LinkReading, target, rtt_s, bytes_per_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LineFinding, members, alone, together)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Participant, node, tokens, digest)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PieceState, piece, before, after)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SumCheck, stage, round, shape, reducer, checker, drawn, sum,
                                   summed, covered, states)
// Nor shapes, tables, screened deltas.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RoundCommit, stage, round, participants, shape,
                                                table, covered, messages)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RoundApplied, stage, round, base_digest, transfer_s,
                                                wait_s, screened, bytes_sent, bytes_received)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MicrobatchLoss, microbatch, tokens, loss)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(CheckpointRecord, generation, round, step, tokens,
                                                bytes, new_bytes, remade)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Traffic, ended_sent, ended_received, sent, received)

}  // namespace skerry
