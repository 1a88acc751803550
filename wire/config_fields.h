// The keys of run.toml, once: section, key, range, comment. Reading, writing, checking and the
// digest are visitors of this list, so none of them can forget a key.
//
// A visitor has Section(name, comment), Number (any arithmetic type, bounds included), Seed, Flag,
// Text and Choice (the texts of an enumeration, in its order).
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "common/run_config.h"

namespace skerry {

inline constexpr size_t kConfigTextBytesMax = 200;

template <typename Visitor>
void VisitModel(Visitor& v, TransformerConfig& m) {
  v.Section("model", "A LLaMA-family decoder.");
  v.Number("model", "vocab", m.vocab, 2, 1 << 20, "size of the tokenizer; 256 is bytes");
  v.Number("model", "hidden", m.hidden, 2, 1 << 16, "a multiple of heads");
  v.Number("model", "layers", m.layers, 1, 4096, "");
  v.Number("model", "heads", m.heads, 1, 4096, "a multiple of kv_heads");
  v.Number("model", "kv_heads", m.kv_heads, 1, 4096, "");
  v.Number("model", "ffn", m.ffn, 1, 1 << 20, "inner size of the feed-forward block");
  v.Number("model", "context", m.context, 1, 1 << 20, "tokens per sequence");
  v.Number("model", "rope_base", m.rope_base, 1, 1e9, "");
  v.Number("model", "norm_epsilon", m.norm_epsilon, 1e-12, 1, "");
  v.Flag("model", "tied_head", m.tied_head, "the head shares the embedding's weights");
  v.Flag("model", "qkv_bias", m.qkv_bias, "q, k and v have biases, as in Qwen2");
  v.Choice("model", "rope_scaling", m.rope_scaling, {"none", "linear", "llama3"},
           "how positions are stretched beyond those of the first training");
  v.Number("model", "rope_factor", m.rope_factor, 1, 1e6, "linear, llama3");
  v.Number("model", "rope_low_frequency", m.rope_low_frequency, 1e-6, 1e6, "llama3");
  v.Number("model", "rope_high_frequency", m.rope_high_frequency, 1e-6, 1e6, "llama3");
  v.Number("model", "rope_original_context", m.rope_original_context, 0, 1 << 24, "llama3");
  v.Number("model", "positions", m.positions, 0, 1 << 24,
           "what an imported model says it reaches; 0: context");
  v.Number("model", "ladder", m.ladder, 0, 4096,
           "layers between whole streams, which divides layers; hides sums of --split tensors, and "
           "is no LLaMA; 0: off");
}

template <typename Visitor>
void VisitInner(Visitor& v, InnerConfig& c) {
  v.Section("inner", "What every node does by itself at every step.");
  v.Choice("inner", "optimizer", c.optimizer, {"adamw", "sgd", "muon"}, "");
  v.Number("inner", "learning_rate", c.learning_rate, 1e-12, 1e3, "");
  v.Number("inner", "min_learning_rate", c.min_learning_rate, 0, 1e3,
           "cosine decays to this at the last step");
  v.Number("inner", "warmup_steps", c.warmup_steps, 0, 1e12, "");
  v.Number("inner", "beta1", c.beta1, 0, 0.999999, "");
  v.Number("inner", "beta2", c.beta2, 0, 0.999999, "");
  v.Number("inner", "epsilon", c.epsilon, 0, 1, "");
  v.Number("inner", "weight_decay", c.weight_decay, 0, 1e3, "on matrices only");
  v.Number("inner", "clip_norm", c.clip_norm, 0, 1e9, "per block; 0 is off");
  v.Choice("inner", "compute", c.compute, {"float32", "bf16"},
           "what products are of; bf16 only where a device is faster so, about twice");
  v.Number("inner", "z_loss", c.z_loss, 0, 1, "weight of log(sum of e^logit) squared; 0 is off");
}

template <typename Visitor>
void VisitOuter(Visitor& v, OuterConfig& c) {
  v.Section("outer", "The averaged step over the wide area, every inner_steps.");
  v.Number("outer", "inner_steps", c.inner_steps, 0, 1e6, "0: the planner chooses");
  v.Number("outer", "overlap_steps", c.overlap_steps, -1, 1e6,
           "the committed update lands this many inner steps after the boundary; -1: the planner "
           "chooses");
  v.Number("outer", "learning_rate", c.learning_rate, 1e-6, 100, "");
  v.Number("outer", "momentum", c.momentum, 0, 0.999999, "Nesterov");
  v.Choice("outer", "tier", c.tier, {"custom", "auto", "default", "starved", "rich"},
           "custom: the codec below; auto: what the measured links can hide; others say codec and "
           "residual");
  v.Choice("outer", "codec", c.codec,
           {"none", "int8", "bf16", "int4", "sign", "ternary", "topk", "lowrank"},
           "how deltas travel");
  v.Choice("outer", "residual", c.residual, {"buffer", "weights"},
           "where progress lives that a lossy delta left out");
  v.Choice("outer", "reduce", c.reduce, {"auto", "all", "sharded"},
           "each replica (or cohort) sums all deltas, or a part for all; auto: a part from 4 on");
  v.Choice("outer", "down_codec", c.down_codec,
           {"auto", "none", "int8", "bf16", "int4", "sign", "ternary", "topk", "lowrank"},
           "how the sums of sharded rounds travel; auto: as deltas");
  v.Choice("outer", "mode", c.mode, {"overlap", "synchronous", "co2", "streaming", "data_parallel"},
           "what a replica does while a round is on its way");
  v.Number("outer", "fragments", c.fragments, 1, 4096, "streaming: parts of a stage, in turn");
  v.Number("outer", "momentum_clip", c.momentum_clip, 0, 1e9, "co2: per parameter; 0 is off");
  v.Number("outer", "gap", c.gap, 0, 1e6, "co2: the staleness gap; 0: from the stability limit");
  v.Choice("outer", "robust", c.robust, {"none", "screen", "clip", "trim"},
           "against wild deltas: leave them out, draw them in, or trim every parameter");
  v.Number("outer", "robust_limit", c.robust_limit, 1, 1e6, "screen, clip: in medians");
  v.Number("outer", "robust_trim", c.robust_trim, 0, 0.49, "trim: share left out at each end");
  v.Choice("outer", "budget", c.budget, {"none", "bits", "error"},
           "a codec for each tensor: least error within budget_bits, or codec's error in fewest "
           "bytes");
  v.Number("outer", "budget_bits", c.budget_bits, 0.01, 32,
           "bits a parameter and delta, with budget bits or codec lowrank");
  v.Number("outer", "budget_rounds", c.budget_rounds, 1, 1e6, "rounds between choices");
  v.Flag("outer", "absences", c.absences, "rounds do not wait for who is late by far");
  v.Number(
      "outer", "sum_checks", c.sum_checks, 0, 1024,
      "sharded: pieces of each reducer that another replica sums again in a round, on average");
}

template <typename Visitor>
void VisitPipeline(Visitor& v, PipelineConfig& c) {
  v.Section("pipeline", "How microbatches travel over the stages.");
  v.Number("pipeline", "stages", c.stages, 0, 4096, "0: the planner chooses");
  v.Number("pipeline", "skip_ratio", c.skip_ratio, 0, 0.5,
           "share of the stages after the first that a microbatch leaves out");
  v.Number("pipeline", "swaps", c.swaps, 0, 64, "neighbouring stages a path may exchange");
  v.Number("pipeline", "microbatches_per_step", c.microbatches_per_step, 1, 16384, "");
  v.Number("pipeline", "sequences_per_microbatch", c.sequences_per_microbatch, 0, 4096,
           "0: the planner cuts sequences_per_step into microbatches");
  v.Number("pipeline", "sequences_per_step", c.sequences_per_step, 0, 1 << 24,
           "the batch, where sequences_per_microbatch is 0; else 0");
  v.Number("pipeline", "in_flight", c.in_flight, 0, 4096,
           "microbatches a first-stage node keeps in the pipeline; 0: the planner chooses");
  v.Choice("pipeline", "slow_link_codec", c.slow_link_codec, {"none", "int8", "bf16"},
           "how activations cross links that limit the plan");
  v.Flag("pipeline", "detours", c.detours, "late microbatches are led around who is late");
  v.Choice("pipeline", "offload", c.offload, {"auto", "never", "always"},
           "when GPU nodes keep the inner optimizer's state in their host's memory");
  v.Choice("pipeline", "offload_activations", c.offload_activations, {"auto", "never", "always"},
           "when nodes park activations in a GPU's host or on a disk offered with --spill");
  v.Choice("pipeline", "recompute", c.recompute, {"auto", "never", "always"},
           "activations are computed again on the way back; auto: where memory is short");
  v.Number("pipeline", "work_checks", c.work_checks, 0, 1,
           "share of what a node makes of microbatches that another replica computes again");
}

template <typename Visitor>
void VisitCheckpoint(Visitor& v, CheckpointConfig& c) {
  v.Section("checkpoint", "Copies of the whole state, kept by the coordinator while nodes train.");
  v.Number("checkpoint", "every_rounds", c.every_rounds, 0, 1e6,
           "outer rounds between two, in streaming rounds of every fragment; 0: none");
  v.Number("checkpoint", "least_s", c.least_s, 0, 1e6, "seconds from one to the next, at least");
  v.Number("checkpoint", "keep", c.keep, 1, 1000, "so many of the newest are kept");
  v.Choice("checkpoint", "lost_stage", c.lost_stage, {"checkpoint", "neighbours"},
           "where a stage comes from of which nobody is left; neighbours: CheckFree");
}

template <typename Visitor>
void VisitCluster(Visitor& v, ClusterConfig& c) {
  v.Section("cluster", "Nodes of one stage that are near each other: one replica together.");
  v.Text("cluster", "groups", c.groups,
         "off; measured: by the limits below; or who, by region or id: lab1; 3fa9 12ab");
  v.Number("cluster", "rate_mbps_min", c.rate_mbps_min, 0.001, 1e6, "of every pair, measured");
  v.Number("cluster", "rtt_ms_max", c.rtt_ms_max, 0.001, 1e4, "of every pair, measured");
  v.Number("cluster", "overlap_steps", c.overlap_steps, 0, 1,
           "1: gradients are summed behind the next step, so old: costs loss at high rates");
}

template <typename Visitor>
void VisitRunConfig(Visitor& v, RunConfig& c) {
  v.Section("run", "The run as a whole.");
  v.Text("run", "name", c.name, "shown to people");
  v.Seed("run", "seed", c.seed, "same seed, same losses");
  v.Number("run", "steps", c.steps, 1, 1e12, "inner steps; a multiple of outer.inner_steps");
  v.Number("run", "nodes_min", c.nodes_min, 1, 100000, "training starts with so many nodes");
  v.Number("run", "nodes_max", c.nodes_max, 1, 100000,
           "so many nodes take part; the others are in reserve");
  v.Number("run", "heartbeat_s", c.heartbeat_s, 0.01, 3600, "");
  v.Number("run", "node_silent_s", c.node_silent_s, 0.02, 86400,
           "a node silent for this long is declared dead");
  v.Number("run", "replan_s", c.replan_s, 0, 1e9,
           "how often a move of nodes is considered; 0: never");
  VisitModel(v, c.model);
  VisitInner(v, c.inner);
  VisitOuter(v, c.outer);
  VisitPipeline(v, c.pipeline);
  VisitCheckpoint(v, c.checkpoint);
  VisitCluster(v, c.cluster);
  v.Section("data", "Training data.");
  v.Text("data", "dir", c.data_dir, "token shards, relative to the run directory");
}

}  // namespace skerry
