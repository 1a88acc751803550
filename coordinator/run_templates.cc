#include "coordinator/run_templates.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/check.h"
#include "common/status.h"
#include "pipeline/plan/outer_choice.h"

namespace skerry {
namespace {

struct Recipe {
  const char* name;
  int32_t layers, hidden, heads, kv_heads, ffn, context;
  float rope_base;
  float learning_rate;  // at its peak; a tenth at the end
  int32_t sequences_per_step;
  int32_t nodes_min;
  int64_t steps, warmup_steps;
  const char* source;  // of shape and rate
};

// The outer steps are OuterConfig's own, which were measured (docs/OUTER_STEPS.md), δ the
// planner's.
constexpr Recipe kRecipes[] = {
    {"tiny", 8, 192, 6, 3, 512, 256, 10000, 2e-3f, 32, 4, 2048, 64, "the demo's, on CPUs"},
    {"125m", 12, 768, 12, 12, 2048, 1024, 10000, 6e-4f, 256, 4, 10240, 512,
     "GPT-3 Small (Brown and others 2020, table 2.1), with the LLaMA layer's ffn of 8/3 hidden"},
    {"350m", 24, 1024, 16, 16, 2816, 1024, 10000, 3e-4f, 512, 8, 14336, 512,
     "GPT-3 Medium (Brown and others 2020, table 2.1), with the LLaMA layer's ffn of 8/3 hidden"},
    {"1b", 22, 2048, 32, 4, 5632, 2048, 10000, 4e-4f, 1024, 8, 16384, 1024,
     "TinyLlama (Zhang and others 2024)"},
    {"8b", 32, 4096, 32, 8, 14336, 4096, 500000, 3e-4f, 1024, 16, 65536, 2048,
     "LLaMA 3 8B (Grattafiori and others 2024, table 3)"},
};

// Where strangers train: 2p/S of the fleet's work in S stages
// (docs/decisions/0056-checked-work.md).
constexpr float kWorkChecks = 0.02f;

const Recipe* Find(const std::string& name) {
  const auto recipe = std::find_if(std::begin(kRecipes), std::end(kRecipes),
                                   [&](const Recipe& r) { return r.name == name; });
  return recipe == std::end(kRecipes) ? nullptr : recipe;
}

}  // namespace

std::vector<std::string> TemplateNames() {
  std::vector<std::string> names;
  for (const Recipe& recipe : kRecipes) names.push_back(recipe.name);
  return names;
}

absl::StatusOr<RunConfig> TemplateNamed(const std::string& name, int32_t vocab) {
  const Recipe* recipe = Find(name);
  if (recipe == nullptr) {
    return InvalidArgument("--template: there is %s, no '%s'", absl::StrJoin(TemplateNames(), ", "),
                           name);
  }
  RunConfig config;
  config.name = recipe->name;
  config.steps = recipe->steps;
  config.nodes_min = recipe->nodes_min;
  TransformerConfig& model = config.model;
  model.vocab = (vocab + 63) / 64 * 64;
  model.layers = recipe->layers;
  model.hidden = recipe->hidden;
  model.heads = recipe->heads;
  model.kv_heads = recipe->kv_heads;
  model.ffn = recipe->ffn;
  model.context = recipe->context;
  model.rope_base = recipe->rope_base;
  config.inner.learning_rate = recipe->learning_rate;
  config.inner.min_learning_rate = recipe->learning_rate / 10;
  config.inner.warmup_steps = recipe->warmup_steps;
  config.outer.overlap_steps = -1;  // the planner will have measured the links
  config.pipeline.sequences_per_microbatch = 0;
  config.pipeline.sequences_per_step = recipe->sequences_per_step;
  if (name != "tiny") config.pipeline.work_checks = kWorkChecks;
  config.checkpoint = kInitialCheckpoints;
  return config;
}

std::string TemplateText(const RunConfig& config) {
  const TransformerConfig& model = config.model;
  const Recipe* recipe = Find(config.name);
  SKERRY_CHECK(recipe != nullptr, "of a template");
  return absl::StrFormat(
      "template %s: %d layers of width %d, %d sequences of %d tokens a step; shape and rate: %s\n"
      "inner steps: AdamW, learning rate %g after %d steps of warm-up, %g after all %d\n"
      "outer steps: every %d inner ones, learning rate %g, momentum %g, deltas in %s "
      "(docs/OUTER_STEPS.md, where they were measured); how late they land the planner chooses\n",
      config.name, model.layers, model.hidden, config.pipeline.sequences_per_step, model.context,
      recipe->source, config.inner.learning_rate, config.inner.warmup_steps,
      config.inner.min_learning_rate, config.steps, config.outer.inner_steps,
      config.outer.learning_rate, config.outer.momentum, CodecName(config.outer.codec));
}

}  // namespace skerry
