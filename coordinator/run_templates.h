// Configurations to begin with, by the size of the model.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/run_config.h"

namespace skerry {

// tiny, 125m, 350m, 1b, 8b.
std::vector<std::string> TemplateNames();

// `vocab`: of the tokenizer; the model's is the next multiple of 64 (256 stays 256).
// InvalidArgument lists the names.
absl::StatusOr<RunConfig> TemplateNamed(const std::string& name, int32_t vocab);

// Its shape, rates and outer steps, and where they are from: a few lines for people. Of a config
// that TemplateNamed made.
std::string TemplateText(const RunConfig& config);

}  // namespace skerry
