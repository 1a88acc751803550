#include "sim/skippipe_case.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/status.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

constexpr double kWaveReleaseSeconds = 2.5;
constexpr double kSlotReleaseSeconds = 1.0;
constexpr double kBaselineReleaseSeconds = 0.1;
constexpr size_t kCaseBytesMax = 64 << 20;

// Values are taken through get<T>(), which throws on a wrong type; caught once, in Parse.
void ReadProblem(const Json& input, SkipPipeProblem& problem) {
  problem.stage_sizes = input.at("partition_sizes").get<std::vector<int32_t>>();
  problem.path_length = input.at("path_length").get<int32_t>();
  problem.in_flight = input.at("memory_per_node_microbatches").get<int32_t>();
  problem.waves = input.at("waves").get<int32_t>();
  problem.forward_s = input.at("fwd_time_s").get<std::vector<double>>();
  for (const auto& row : input.at("comm_cost_s").get<std::vector<std::vector<double>>>()) {
    problem.transfer_s.insert(problem.transfer_s.end(), row.begin(), row.end());
  }
  problem.backward_factor = input.value("bwd_factor", problem.backward_factor);
  problem.loss_factor = input.value("loss_factor", problem.loss_factor);
  problem.task_gap_s = input.value("per_task_overhead_s", problem.task_gap_s);
  problem.start_gap_s = input.value("per_start_overhead_s", problem.start_gap_s);
}

// The straight pipelines of DT-FM's placement: the first nodes of every stage, each with
// `in_flight` lanes of 3 microbatches, released 0.1 s apart.
SkipPipeSchedule Baseline(const SkipPipeCase& from) {
  SkipPipeSchedule schedule{from.partitions, {}};
  const size_t columns = from.partitions.size() > 1 ? from.partitions[1].size() : 0;
  for (size_t column = 0; column < columns && column < from.partitions[0].size(); ++column) {
    std::vector<int32_t> path;
    for (const auto& stage : from.partitions) {
      if (column < stage.size()) path.push_back(stage[column]);
    }
    for (int32_t slot = 0; slot < 3; ++slot) {
      for (int32_t wave = 0; wave < 3; ++wave) {
        schedule.microbatches.push_back({path, 3 * slot + 9 * static_cast<int32_t>(column), wave,
                                         wave * kBaselineReleaseSeconds});
      }
    }
  }
  return schedule;
}

std::vector<int32_t> PathFrom(const std::vector<int32_t>& origins, const Json& edges) {
  std::vector<int32_t> path;
  for (const int32_t origin : origins) {
    if (edges.contains(std::to_string(origin))) path.push_back(origin);
  }
  while (!path.empty() && path.size() <= edges.size()) {
    const auto next = edges.find(std::to_string(path.back()));
    if (next == edges.end()) break;
    path.push_back(next->get<int32_t>());
  }
  return path;
}

// SkipPipe's agents are microbatch slots or, coarsened, whole stage-0 nodes: then one agent's path
// is that of all slots, released 1 s apart.
SkipPipeSchedule Routed(const SkipPipeCase& from, const Json& paths) {
  SkipPipeSchedule schedule{from.partitions, {}};
  const auto& origins = from.partitions.front();
  const auto agents = static_cast<int32_t>(paths.size());
  const bool coarse = paths.size() == origins.size();
  const int32_t agents_per_origin = coarse ? 1 : from.problem.in_flight;
  for (int32_t agent = 0; agent < agents; ++agent) {
    const std::vector<int32_t> path = PathFrom(origins, paths.at(std::to_string(agent)));
    if (path.empty()) continue;
    const double forward = from.problem.forward_s.at(static_cast<size_t>(path.front()));
    const double start = agent % agents_per_origin * forward;
    for (int32_t slot = 0; slot < (coarse ? from.problem.in_flight : 1); ++slot) {
      for (int32_t wave = 0; wave < from.problem.waves; ++wave) {
        const double release = wave * kWaveReleaseSeconds + slot * kSlotReleaseSeconds + start;
        schedule.microbatches.push_back({path, slot * 10 + agent, wave, release});
      }
    }
  }
  return schedule;
}

void ReadReferences(const Json& output, SkipPipeCase& result) {
  for (const auto& [method, expected] :
       {std::pair{"baseline", "baseline-expected-time"}, std::pair{"ca", "ca-expected-time"},
        std::pair{"nonca", "nonca-expected-time"}, std::pair{"random", "random-expected-time"}}) {
    const std::string paths =
        (method == std::string("nonca") ? "non-ca" : std::string(method)) + "-paths";
    const bool baseline = method == std::string("baseline");
    if (!output.contains(expected) || !output.at(expected).is_number()) continue;
    if (!baseline && !output.contains(paths)) continue;
    result.references.push_back({method,
                                 baseline ? Baseline(result) : Routed(result, output[paths]),
                                 output.at(expected).get<double>()});
  }
}

absl::Status Fill(const Json& json, SkipPipeCase& result) {
  result.name = json.value("name", "");
  ReadProblem(json.at("input"), result.problem);
  SKERRY_RETURN_IF_ERROR(ValidateProblem(result.problem));
  const auto output = json.find("skippipe_output");
  if (output == json.end() || !output->contains("partitions")) return absl::OkStatus();
  result.partitions = output->at("partitions").get<std::vector<std::vector<int32_t>>>();
  SKERRY_RETURN_IF_ERROR(ValidateSchedule(result.problem, {result.partitions, {}}));
  ReadReferences(*output, result);
  for (const SkipPipeReference& reference : result.references) {
    const absl::Status valid = ValidateSchedule(result.problem, reference.schedule);
    if (!valid.ok()) return Annotate(valid, reference.method);
  }
  return absl::OkStatus();
}

}  // namespace

const SkipPipeReference* SkipPipeCase::Find(const std::string& method) const {
  for (const SkipPipeReference& reference : references) {
    if (reference.method == method) return &reference;
  }
  return nullptr;
}

absl::StatusOr<SkipPipeCase> ParseSkipPipeCase(const std::string& json) {
  if (json.size() > kCaseBytesMax) return InvalidArgument("a case of %d bytes", json.size());
  SkipPipeCase result;
  try {
    SKERRY_RETURN_IF_ERROR(Fill(Json::parse(json), result));
  } catch (const std::exception& error) {
    return InvalidArgument("not a SkipPipe case: %s", error.what());
  }
  return result;
}

absl::StatusOr<SkipPipeCase> ReadSkipPipeCase(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) return NotFound("%s: cannot be read", file);
  absl::StatusOr<SkipPipeCase> result = ParseSkipPipeCase(text.str());
  if (!result.ok()) return Annotate(result.status(), file);
  return result;
}

}  // namespace skerry
