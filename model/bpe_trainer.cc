#include "model/bpe_trainer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <queue>
#include <set>

#include "common/status.h"
#include "model/pre_tokenizer.h"
#include "model/tokenizer.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

constexpr int64_t kFrequencyLeast = 2;
constexpr char kEndOfText[] = "<|endoftext|>";

struct Word {
  std::vector<int32_t> symbols;
  int64_t count = 0;
};

using Pair = std::pair<int32_t, int32_t>;

uint64_t KeyOf(const Pair& pair) {
  return uint64_t{static_cast<uint32_t>(pair.first)} << 32 | static_cast<uint32_t>(pair.second);
}

// All pairs of all words, how often each occurs, and in which words it may.
class Pairs {
 public:
  explicit Pairs(std::vector<Word> words) : words_(std::move(words)) {
    for (size_t i = 0; i < words_.size(); ++i) Count(i, words_[i].count);
    for (const auto& [key, entry] : entries_) Push(key, entry.count);
  }

  // The most frequent; false: none occurs often enough.
  bool Next(Pair& pair) {
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      const int64_t count = entries_.at(KeyOf(top.pair)).count;
      if (count != top.count) {  // it has become rarer since; what is more frequent was pushed
        if (count < top.count) Push(KeyOf(top.pair), count);
        continue;
      }
      pair = top.pair;
      return count >= kFrequencyLeast;
    }
    return false;
  }

  void Merge(const Pair& pair, int32_t id) {
    std::vector<uint32_t> where = std::move(entries_.at(KeyOf(pair)).words);
    std::sort(where.begin(), where.end());
    where.erase(std::unique(where.begin(), where.end()), where.end());
    changed_.clear();
    for (const uint32_t i : where) MergeIn(i, pair, id);
    for (const uint64_t key : changed_) Push(key, entries_.at(key).count);
  }

 private:
  struct Entry {
    int64_t count = 0;
    std::vector<uint32_t> words;  // all that have it, and some that had it
  };
  struct Candidate {
    int64_t count;
    Pair pair;
    bool operator<(const Candidate& other) const {  // the later one is the larger one
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  void Push(uint64_t key, int64_t count) {
    if (count < kFrequencyLeast) return;
    const Pair pair(static_cast<int32_t>(key >> 32), static_cast<int32_t>(key & 0xffffffff));
    queue_.push({count, pair});
  }

  void Count(size_t i, int64_t times) {
    const std::vector<int32_t>& symbols = words_[i].symbols;
    for (size_t k = 0; k + 1 < symbols.size(); ++k) {
      const uint64_t key = KeyOf({symbols[k], symbols[k + 1]});
      Entry& entry = entries_[key];
      entry.count += times;
      if (times > 0 && (entry.words.empty() || entry.words.back() != i)) {
        entry.words.push_back(static_cast<uint32_t>(i));
      }
      changed_.insert(key);
    }
  }

  // The leftmost first, as a tokenizer does.
  void MergeIn(size_t i, const Pair& pair, int32_t id) {
    std::vector<int32_t>& symbols = words_[i].symbols;
    Count(i, -words_[i].count);
    size_t to = 0;
    for (size_t from = 0; from < symbols.size(); ++to) {
      const bool is_pair = from + 1 < symbols.size() && symbols[from] == pair.first &&
                           symbols[from + 1] == pair.second;
      symbols[to] = is_pair ? id : symbols[from];
      from += is_pair ? 2 : 1;
    }
    symbols.resize(to);
    Count(i, words_[i].count);
  }

  std::vector<Word> words_;
  std::unordered_map<uint64_t, Entry> entries_;
  std::priority_queue<Candidate> queue_;
  std::set<uint64_t> changed_;  // by the merge under way
};

}  // namespace

void BpeTrainer::Add(std::string_view text) {
  cut_.clear();
  CutWords(WordPattern::kGpt2, text, cut_);
  for (const std::string_view word : cut_) ++words_[std::string(word)];
  if (words_.size() > kWordsMax) Forget();
}

// At least half of them, so that it is not done for each new word.
void BpeTrainer::Forget() {
  while (words_.size() > kWordsMax / 2) {
    std::erase_if(words_, [&](const auto& word) { return word.second <= rarest_; });
    rarest_ *= 2;
  }
}

absl::StatusOr<BpeVocabulary> BpeTrainer::Train(int32_t tokens) const {
  if (tokens < kVocabLeast || tokens > kVocabMost) {
    return InvalidArgument(
        "a vocabulary of %d tokens: want %d (every byte, and the end of a text) "
        "to %d",
        tokens, kVocabLeast, kVocabMost);
  }
  // In the order of their bytes, as that of a hash table is nobody's.
  std::vector<std::pair<std::string_view, int64_t>> sorted(words_.begin(), words_.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<Word> words;
  words.reserve(sorted.size());
  for (const auto& [text, count] : sorted) {
    Word word{{}, count};
    for (const char c : text) word.symbols.push_back(static_cast<uint8_t>(c));
    words.push_back(std::move(word));
  }
  BpeVocabulary vocabulary;
  for (int32_t byte = 0; byte < 256; ++byte) {
    vocabulary.symbols.emplace_back(1, static_cast<char>(byte));
  }
  Pairs pairs(std::move(words));
  std::unordered_map<std::string, int32_t> ids;
  Pair pair;
  while (static_cast<int32_t>(vocabulary.symbols.size()) + 1 < tokens) {
    if (!pairs.Next(pair)) {
      return InvalidArgument(
          "%d tokens were asked for, and the text gives %d: ask for these, or give "
          "more text",
          tokens, vocabulary.symbols.size() + 1);
    }
    std::string symbol = vocabulary.symbols[static_cast<size_t>(pair.first)] +
                         vocabulary.symbols[static_cast<size_t>(pair.second)];
    // Two ways may lead to one symbol: "ab" "c" and "a" "bc".
    const auto [known, is_new] =
        ids.try_emplace(symbol, static_cast<int32_t>(vocabulary.symbols.size()));
    if (is_new) vocabulary.symbols.push_back(std::move(symbol));
    vocabulary.merges.push_back(pair);
    pairs.Merge(pair, known->second);
  }
  return vocabulary;
}

std::string TokenizerJsonOf(const BpeVocabulary& vocabulary) {
  const std::vector<std::string> characters = ByteCharacters();
  const auto shown = [&](int32_t id) {
    std::string text;
    for (const char c : vocabulary.symbols[static_cast<size_t>(id)]) {
      text += characters[static_cast<uint8_t>(c)];
    }
    return text;
  };
  const auto end_of_text = static_cast<int32_t>(vocabulary.symbols.size());
  Json ids = Json::object(), merges = Json::array();
  for (int32_t id = 0; id < end_of_text; ++id) ids[shown(id)] = id;
  ids[kEndOfText] = end_of_text;
  for (const auto& [left, right] : vocabulary.merges) {
    merges.push_back({shown(left), shown(right)});
  }
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  const Json added = {{"id", end_of_text}, {"content", kEndOfText}, {"single_word", false},
                      {"lstrip", false},   {"rstrip", false},       {"normalized", false},
                      {"special", true}};
  const Json model = {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", false},
                      {"byte_fallback", false},
                      {"ignore_merges", false},
                      {"vocab", std::move(ids)},
                      {"merges", std::move(merges)}};
  const Json file = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", Json::array({added})},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", byte_level},
                     {"post_processor", nullptr},
                     {"decoder", byte_level},
                     {"model", model}};
  return file.dump(1, ' ') + "\n";
}

}  // namespace skerry
