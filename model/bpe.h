// Byte-pair encoding (Sennrich and others 2016): of the pairs of neighbours in a word the one that
// was learnt first becomes one symbol, the leftmost first, until no pair is known.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace skerry {

struct BpeOptions {
  bool is_bytes = false;       // words begin as bytes; else as UTF-8 characters
  bool byte_fallback = false;  // a character that is no symbol: as bytes, "<0xE2>"
  bool fuse_unknown = false;   // unknown neighbours become one token
  bool whole_words = false;    // a word that is a symbol is not merged
  int32_t unknown = -1;        // −1: what is unknown is left out
};

// One thread owns it.
class BpeModel {
 public:
  // `symbols`: text and id; `merges`: in the order in which they were learnt. InvalidArgument names
  // a merge of what is no symbol. Once.
  absl::Status Build(std::unordered_map<std::string, int32_t> symbols,
                     const std::vector<std::pair<std::string, std::string>>& merges,
                     const BpeOptions& options);

  // Appends the tokens of one word.
  void Encode(std::string_view word, std::vector<int32_t>& out);
  int32_t IdOf(std::string_view symbol) const;

 private:
  struct Merge {
    uint64_t pair = kNoPair;  // left id · 2³² + right id
    int32_t rank = 0;
    int32_t id = 0;
  };
  static constexpr uint64_t kNoPair = UINT64_MAX;
  struct Symbol {
    int32_t id, before, after;  // neighbours by index; −1: none
  };
  struct ViewHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  void AddMerge(const Merge& merge);
  const Merge* Find(int32_t left, int32_t right) const;
  void Begin(std::string_view word, std::vector<int32_t>& ids) const;
  void MergeFew(std::vector<int32_t>& ids) const;
  void MergeMany(std::vector<int32_t>& ids) const;

  BpeOptions options_;
  std::unordered_map<std::string, int32_t, ViewHash, std::equal_to<>> symbols_;
  std::vector<Merge> merges_;  // open addressing, a power of two
  int32_t byte_ids_[256] = {};
  std::unordered_map<std::string, std::vector<int32_t>, ViewHash, std::equal_to<>> remembered_;
};

}  // namespace skerry
