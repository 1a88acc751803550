// A vocabulary of one's own: what is learnt, and that our reader takes it.
#include "model/bpe_trainer.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "common/rng.h"
#include "common/status.h"
#include "model/json_tokenizer.h"
#include "model/pre_tokenizer.h"

namespace skerry {
namespace {

std::string Text(uint64_t seed, int words) {
  static const char* const kStems[] = {"low",  "lower",  "new",        "newest",
                                       "wide", "widest", "caf\xc3\xa9"};
  Rng rng(seed, "text");
  std::string text;
  for (int i = 0; i < words; ++i) text += std::string(i > 0 ? " " : "") + kStems[rng.Next() % 7];
  return text;
}

// The same by its definition: all pairs counted anew before each merge.
std::vector<std::pair<int32_t, int32_t>> MergesByDefinition(const std::string& text, size_t count) {
  std::vector<std::string_view> cut;
  CutWords(WordPattern::kGpt2, text, cut);
  std::vector<std::vector<int32_t>> words;
  for (const std::string_view word : cut) {
    words.emplace_back();
    for (const char c : word) words.back().push_back(static_cast<uint8_t>(c));
  }
  std::vector<std::pair<int32_t, int32_t>> merges;
  std::vector<std::string> symbols;
  for (int b = 0; b < 256; ++b) symbols.emplace_back(1, static_cast<char>(b));
  while (merges.size() < count) {
    std::map<std::pair<int32_t, int32_t>, int64_t> pairs;
    for (const auto& word : words) {
      for (size_t i = 0; i + 1 < word.size(); ++i) ++pairs[{word[i], word[i + 1]}];
    }
    auto best = pairs.begin();
    for (auto it = pairs.begin(); it != pairs.end(); ++it) {
      if (it->second > best->second) best = it;
    }
    if (best == pairs.end() || best->second < 2) break;
    const auto pair = best->first;
    const std::string symbol =
        symbols[static_cast<size_t>(pair.first)] + symbols[static_cast<size_t>(pair.second)];
    const auto known = std::find(symbols.begin(), symbols.end(), symbol);
    const auto id = static_cast<int32_t>(known - symbols.begin());
    if (known == symbols.end()) symbols.push_back(symbol);
    for (auto& word : words) {
      std::vector<int32_t> merged;
      for (size_t i = 0; i < word.size(); ++i) {
        const bool is_pair = i + 1 < word.size() && std::pair(word[i], word[i + 1]) == pair;
        merged.push_back(is_pair ? id : word[i]);
        i += is_pair;
      }
      word = std::move(merged);
    }
    merges.push_back(pair);
  }
  return merges;
}

}  // namespace

TEST_CASE("BpeTrainer: it learns what the definition says, ties by the lower numbers", "[model]") {
  const auto seed = GENERATE(range(uint64_t{1}, uint64_t{6}));
  const std::string text = Text(seed, 200) + " aaaa aaaaaaa zzzz";
  BpeTrainer trainer;
  trainer.Add(text);

  const auto vocabulary = trainer.Train(257 + 20);

  REQUIRE(vocabulary.ok());
  CHECK(vocabulary->merges == MergesByDefinition(text, vocabulary->merges.size()));
  CHECK(vocabulary->symbols.size() == 276);
}

TEST_CASE("BpeTrainer: the parts of a text give what the whole does", "[model]") {
  const std::string text = Text(7, 300);
  BpeTrainer whole, parts;
  whole.Add(text);
  size_t begin = 0;
  for (size_t at = text.find(' ', 500); at != std::string::npos; at = text.find(' ', begin + 500)) {
    parts.Add(std::string_view(text).substr(begin, at - begin));
    begin = at;
  }
  parts.Add(std::string_view(text).substr(begin));
  CHECK(parts.Train(270)->merges == whole.Train(270)->merges);
}

TEST_CASE("BpeTrainer: the file is read by our own reader, and texts come back", "[model]") {
  const std::string text = Text(3, 500);
  BpeTrainer trainer;
  trainer.Add(text);
  const auto vocabulary = *trainer.Train(275);

  const auto tokenizer = ParseJsonTokenizer(TokenizerJsonOf(vocabulary), "");

  REQUIRE(tokenizer.ok());
  CHECK((*tokenizer)->vocab() == 275);
  CHECK((*tokenizer)->separator() == 274);
  const auto tokens = (*tokenizer)->Encode(text);
  CHECK((*tokenizer)->Decode(tokens) == text);
  CHECK(tokens.size() < text.size() / 3);
  const std::string strange = "\xf0\x9f\x98\x80\x01 never seen\r\n";
  CHECK((*tokenizer)->Decode((*tokenizer)->Encode(strange)) == strange);
}

TEST_CASE("BpeTrainer: what cannot be learnt is said with numbers", "[model][error]") {
  BpeTrainer trainer;
  trainer.Add("ab ab ab");
  CHECK(ErrorText(trainer.Train(256).status()).find("want 257") != std::string::npos);
  const std::string few = ErrorText(trainer.Train(1000).status());
  CHECK(few.find("1000 tokens were asked for, and the text gives 259") != std::string::npos);
  CHECK(trainer.Train(259).ok());
}

}  // namespace skerry
