// What the tests of lost stages share: a small fleet that exports its model, and what must hold
// when a run is over.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "sim/virtual_run.h"

namespace skerry::testing {

// `count` alike nodes on alike links, `stages` of two layers each; nothing is skipped.
inline VirtualRunOptions AlikeNodes(int32_t count, int32_t stages, VirtualMath math) {
  VirtualRunOptions options;
  RunConfig& config = options.config;
  config.nodes_min = count;
  config.node_silent_s = 6;
  config.replan_s = 0;
  config.model = {.vocab = 64,
                  .hidden = 32,
                  .layers = 2 * stages,
                  .heads = 2,
                  .kv_heads = 1,
                  .ffn = 64,
                  .context = 16};
  config.outer.inner_steps = 4;
  config.outer.overlap_steps = 1;
  config.pipeline.stages = stages;
  config.pipeline.skip_ratio = 0;
  config.pipeline.microbatches_per_step = 4;
  config.pipeline.sequences_per_microbatch = 1;
  VirtualNode node;
  node.device = {"simulated", "simulated", 0.002, int64_t{1} << 34};
  node.memory_bytes_per_s = 1e8;
  options.nodes.assign(static_cast<size_t>(count), node);
  options.link = [](const NodeId&, const NodeId&) {
    return SimLink{.one_way = Duration::Millis(5), .bytes_per_s = 1e7, .jitter = {}};
  };
  options.math = math;
  options.exports = true;
  options.limit = Duration::Seconds(7200);
  return options;
}

inline int64_t Count(const VirtualRun& run, const std::string& kind) {
  return std::count_if(run.events().begin(), run.events().end(),
                       [&](const VirtualEvent& event) { return event.kind == kind; });
}

// Nothing was violated, and all steps were made.
inline void CheckSound(const VirtualRun& run, const VirtualOutcome& outcome) {
  for (const Violation& violation : outcome.violations) {
    UNSCOPED_INFO(violation.rule << " at " << (violation.at - Instant()).seconds()
                                 << " s: " << violation.what);
  }
  UNSCOPED_INFO(outcome.ended);
  CHECK(outcome.violations.empty());
  CHECK(outcome.finished);
  CHECK(outcome.steps == run.options().config.steps);
}

}  // namespace skerry::testing
