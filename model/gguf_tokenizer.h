// A tokenizer as keys of a GGUF file.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "model/gguf_bytes.h"

namespace skerry {

// From tokenizer.json in `directory`, "" for the byte tokenizer where `vocab` is its; special
// tokens from config.json there. A vocabulary smaller than `vocab` is filled up. Nothing is added
// where there is no tokenizer. InvalidArgument: it is no BPE.
absl::Status AddGgufTokenizer(const std::string& directory, int32_t vocab, GgufKeys& keys);

}  // namespace skerry
