// Tokenizers of Hugging Face's `tokenizers`, from tokenizer.json: byte-pair encoding, byte-level
// (GPT-2, LLaMA 3, Qwen2, SmolLM) or on characters with a visible space (LLaMA 2, Mistral,
// TinyLlama). The same tokens as theirs, special ones in the text included.
//
// Known: normalizers NFC, Prepend, Replace and sequences of them; pre-tokenizers ByteLevel, Split
// (patterns of model/pre_tokenizer.h), Digits, Metaspace and sequences; the model BPE. All else is
// refused by its name. The post-processor is not applied: it puts tokens around a text, which is
// for the caller to decide.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "model/text_tokenizer.h"

namespace skerry {

// `text` of the file; `separator_token`: what stands between documents, "": chosen by its usual
// names.
absl::StatusOr<std::unique_ptr<TextTokenizer>> ParseJsonTokenizer(
    const std::string& text, const std::string& separator_token);

}  // namespace skerry
