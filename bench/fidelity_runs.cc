// Whole runs: the same scenario with the real programs over shaped packets, and on virtual time.
#include "bench/emulated_run.h"
#include "bench/fidelity.h"

namespace skerry::bench {
namespace {

// Four nodes, a model of 10 million parameters and few tokens: nearly all time goes into outer
// steps, each of megabytes from replica to replica.
constexpr const char* kOuterStep = R"(name = "outer step"
text = "text.txt"
regions = ["frankfurt", "virginia"]
[[pair]]
a = "frankfurt"
b = "virginia"
rtt_ms = 93
rate_mbps = 100
[same_region]
rtt_ms = 2
rate_mbps = 1000
[class.line]
up_mbps = 50
down_mbps = 100
access_rtt_ms = 10
[[nodes]]
region = "frankfurt"
count = 2
class = "line"
device = "this"
[[nodes]]
region = "virginia"
count = 2
class = "line"
device = "this"
[run]
name = "outer step"
seed = 1
nodes_min = 4
steps = %d
[model]
vocab = 256
hidden = 320
layers = 6
heads = 5
kv_heads = 5
ffn = 1280
context = 16
[inner]
optimizer = "adamw"
learning_rate = 2e-3
min_learning_rate = 2e-4
warmup_steps = 4
[outer]
inner_steps = 4
overlap_steps = 0
learning_rate = 1.0
momentum = 0.0
codec = "int8"
residual = "buffer"
[pipeline]
skip_ratio = 0.0
microbatches_per_step = 4
sequences_per_microbatch = 1
in_flight = 2
)";

double Error(double simulated, double real) {
  return 100 * std::abs(simulated - real) / real;
}

}  // namespace

void BenchRuns(Bench& bench, const FidelityOptions& options) {
  std::string scenario = kOuterStep;
  scenario.replace(scenario.find("%d"), 2, options.quick ? "8" : "32");
  const RunPair outer = RunBoth(options.programs_dir, scenario, 4);
  std::printf(
      "  outer step: real %.3f s transfer, %.3f s wait, %zu rounds; simulated %.3f, %.3f, %zu\n",
      outer.real.transfer_s, outer.real.wait_s, outer.real.rounds, outer.simulated.transfer_s,
      outer.simulated.wait_s, outer.simulated.rounds);
  bench.AtMost("an outer step of 4 replicas: transfer time",
               Error(outer.simulated.transfer_s, outer.real.transfer_s), "%", 10);
  if (options.quick) return;
  const RunPair iteration = RunBoth(options.programs_dir, IterationScenario(48), 8);
  std::printf("  iteration: real %.3f s (%zu), simulated %.3f s (%zu)\n", iteration.real.step_s,
              iteration.real.steps, iteration.simulated.step_s, iteration.simulated.steps);
  bench.AtMost("iteration time of the demo's topology",
               Error(iteration.simulated.step_s, iteration.real.step_s), "%", 15);
}

}  // namespace skerry::bench
