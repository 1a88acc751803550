// Learns a byte-level byte-pair vocabulary (Sennrich and others 2016, section 3.2; on bytes as in
// GPT-2): the pair of neighbours that is most frequent becomes a symbol, again and again.
//
// Words are cut as GPT-2 cuts them, and counted once. Of pairs that are equally frequent the one of
// the lower numbers goes first, so a text gives one vocabulary, on any machine and in any order of
// its words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace skerry {

struct BpeVocabulary {
  std::vector<std::string> symbols;                 // bytes, by id: 256 single ones, then of merges
  std::vector<std::pair<int32_t, int32_t>> merges;  // ids of both, as they were learnt
};

class BpeTrainer {
 public:
  static constexpr size_t kWordsMax = 4'000'000;  // distinct; the rarest are forgotten beyond
  static constexpr int32_t kVocabLeast = 257;
  static constexpr int32_t kVocabMost = 1 << 20;

  // A text or a part of one that ends where a word does.
  void Add(std::string_view text);

  // `tokens` with the end-of-text token that TokenizerJsonOf adds. InvalidArgument: out of range,
  // or the text has fewer pairs that occur more than once (the message says how many tokens it
  // gives).
  absl::StatusOr<BpeVocabulary> Train(int32_t tokens) const;

 private:
  void Forget();

  std::unordered_map<std::string, int64_t> words_;  // and how often
  int64_t rarest_ = 1;                              // of those that are kept
  std::vector<std::string_view> cut_;
};

// A tokenizer.json of Hugging Face's `tokenizers`; "<|endoftext|>" is its last token.
std::string TokenizerJsonOf(const BpeVocabulary& vocabulary);

}  // namespace skerry
