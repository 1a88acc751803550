// SkipPipe reference cases: a problem with what SkipPipe's own scheduler answered, from JSON.
//
// Format (tests/routing/data/README.md): `input` the problem, `skippipe_output` its placement, the
// paths of its three methods as {agent: {node: next node}} and the iteration times its simulator
// expects of them. Facts of the published program, in the layout of its schedule.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "routing/skippipe_problem.h"

namespace skerry {

struct SkipPipeReference {
  std::string method;         // "baseline", "ca", "nonca", "random"
  SkipPipeSchedule schedule;  // released as SkipPipe's script releases it
  double expected_s = 0;
};

struct SkipPipeCase {
  std::string name;
  SkipPipeProblem problem;
  std::vector<std::vector<int32_t>> partitions;  // SkipPipe's placement; empty: it found none
  std::vector<SkipPipeReference> references;     // may be empty

  // The method's reference, or null.
  const SkipPipeReference* Find(const std::string& method) const;
};

// NotFound if the file cannot be read, InvalidArgument with the field that is missing or wrong.
absl::StatusOr<SkipPipeCase> ReadSkipPipeCase(const std::string& file);
absl::StatusOr<SkipPipeCase> ParseSkipPipeCase(const std::string& json);

}  // namespace skerry
