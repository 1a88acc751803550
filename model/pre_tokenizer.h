// How text is cut into words before byte-pair encoding. The patterns that files of tokenizers bring
// as regular expressions are matched by hand, as Oniguruma would: leftmost alternative first, each
// as long as it can.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skerry {

enum class WordPattern : uint8_t {
  // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kGpt2,
  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*
  // |\s*[\r\n]+|\s+(?!\S)|\s+
  kLlama3,
  kQwen2,   // the same with single numbers
  kDigits,  // every number by itself, and what stands between
  kDigitRuns,
};

// That of the file's regular expression; nullopt: it is none of those.
std::optional<WordPattern> PatternOf(const std::string& regular_expression);

// Cuts `text`; the words are parts of it and make it up.
void CutWords(WordPattern pattern, std::string_view text, std::vector<std::string_view>& words);

}  // namespace skerry
