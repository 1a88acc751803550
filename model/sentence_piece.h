// SentencePiece models (Kudo, Richardson 2018), by Google's own library.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "model/text_tokenizer.h"

namespace skerry {

// NotFound or InvalidArgument names the file.
absl::StatusOr<std::unique_ptr<TextTokenizer>> OpenSentencePiece(const std::string& path);

}  // namespace skerry
