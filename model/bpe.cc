#include "model/bpe.h"

#include <algorithm>
#include <queue>

#include "common/status.h"
#include "model/unicode.h"

namespace skerry {
namespace {

constexpr size_t kRememberedMax = 1 << 17;
constexpr size_t kWordBytesMax = 64;  // longer ones are not remembered
constexpr size_t kFew = 48;           // symbols

uint64_t PairOf(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

size_t Mix(uint64_t pair) {
  pair *= 0x9e3779b97f4a7c15u;
  return static_cast<size_t>(pair >> 20);
}

}  // namespace

absl::Status BpeModel::Build(std::unordered_map<std::string, int32_t> symbols,
                             const std::vector<std::pair<std::string, std::string>>& merges,
                             const BpeOptions& options) {
  options_ = options;
  symbols_.reserve(symbols.size());
  for (auto& [text, id] : symbols) symbols_.emplace(text, id);
  size_t places = 16;
  while (places < 2 * merges.size() + 2) places *= 2;
  merges_.assign(places, {});
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const int32_t a = IdOf(left), b = IdOf(right), ab = IdOf(left + right);
    if (a < 0 || b < 0 || ab < 0) {
      return InvalidArgument("merge %d ('%s' and '%s') is of or makes what is no token", rank, left,
                             right);
    }
    AddMerge({PairOf(a, b), static_cast<int32_t>(rank), ab});
  }
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text = options_.is_bytes ? std::string(1, static_cast<char>(byte))
                                               : absl::StrFormat("<0x%02X>", byte);
    byte_ids_[byte] = IdOf(text);
  }
  return absl::OkStatus();
}

void BpeModel::AddMerge(const Merge& merge) {
  const size_t mask = merges_.size() - 1;
  size_t at = Mix(merge.pair) & mask;
  while (merges_[at].pair != kNoPair && merges_[at].pair != merge.pair) at = (at + 1) & mask;
  merges_[at] = merge;
}

const BpeModel::Merge* BpeModel::Find(int32_t left, int32_t right) const {
  const uint64_t pair = PairOf(left, right);
  const size_t mask = merges_.size() - 1;
  for (size_t at = Mix(pair) & mask;; at = (at + 1) & mask) {
    if (merges_[at].pair == pair) return &merges_[at];
    if (merges_[at].pair == kNoPair) return nullptr;
  }
}

int32_t BpeModel::IdOf(std::string_view symbol) const {
  const auto at = symbols_.find(symbol);
  return at == symbols_.end() ? -1 : at->second;
}

// The word before any merge.
void BpeModel::Begin(std::string_view word, std::vector<int32_t>& ids) const {
  bool after_unknown = false;
  const auto unknown = [&] {
    if (options_.unknown >= 0 && !(after_unknown && options_.fuse_unknown)) {
      ids.push_back(options_.unknown);
    }
    after_unknown = true;
  };
  for (size_t at = 0; at < word.size();) {
    const size_t length = options_.is_bytes ? 1 : CodePointAt(word, at).bytes;
    const std::string_view text = word.substr(at, length);
    at += length;
    const int32_t id = options_.is_bytes ? byte_ids_[static_cast<uint8_t>(text[0])] : IdOf(text);
    if (id >= 0) {
      ids.push_back(id);
      after_unknown = false;
      continue;
    }
    const bool as_bytes =
        options_.byte_fallback && std::all_of(text.begin(), text.end(), [&](char c) {
          return byte_ids_[static_cast<uint8_t>(c)] >= 0;
        });
    if (!as_bytes) {
      unknown();
      continue;
    }
    for (const char c : text) ids.push_back(byte_ids_[static_cast<uint8_t>(c)]);
    after_unknown = false;
  }
}

void BpeModel::MergeFew(std::vector<int32_t>& ids) const {
  while (true) {
    const Merge* best = nullptr;
    size_t place = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const Merge* merge = Find(ids[i], ids[i + 1]);
      if (merge == nullptr || (best != nullptr && merge->rank >= best->rank)) continue;
      best = merge;
      place = i;
    }
    if (best == nullptr) return;
    ids[place] = best->id;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(place) + 1);
  }
}

// The same with a heap of what may be merged next; entries that are no longer true are let pass.
void BpeModel::MergeMany(std::vector<int32_t>& ids) const {
  const auto count = static_cast<int32_t>(ids.size());
  std::vector<Symbol> symbols;
  for (int32_t i = 0; i < count; ++i) {
    symbols.push_back({ids[static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
  }
  const auto symbol = [&](int32_t i) -> Symbol& { return symbols[static_cast<size_t>(i)]; };
  struct Next {
    int32_t rank, place, id;
    uint64_t pair;
    bool operator<(const Next& o) const {
      return rank != o.rank ? rank > o.rank : place > o.place;  // the least comes first
    }
  };
  std::priority_queue<Next> queue;
  const auto consider = [&](int32_t place) {
    if (place < 0 || symbol(place).after < 0) return;
    const int32_t right = symbol(symbol(place).after).id;
    const Merge* merge = Find(symbol(place).id, right);
    if (merge != nullptr) queue.push({merge->rank, place, merge->id, merge->pair});
  };
  for (int32_t i = 0; i < count; ++i) consider(i);
  while (!queue.empty()) {
    const Next next = queue.top();
    queue.pop();
    Symbol& left = symbol(next.place);
    if (left.id < 0 || left.after < 0) continue;
    Symbol& right = symbol(left.after);
    if (PairOf(left.id, right.id) != next.pair) continue;
    left.id = next.id;
    right.id = -1;
    left.after = right.after;
    if (left.after >= 0) symbol(left.after).before = next.place;
    consider(left.before);
    consider(next.place);
  }
  ids.clear();
  for (const Symbol& one : symbols) {
    if (one.id >= 0) ids.push_back(one.id);
  }
}

void BpeModel::Encode(std::string_view word, std::vector<int32_t>& out) {
  if (word.empty()) return;
  const auto known = remembered_.find(word);
  if (known != remembered_.end()) {
    out.insert(out.end(), known->second.begin(), known->second.end());
    return;
  }
  std::vector<int32_t> ids;
  const int32_t whole = options_.whole_words ? IdOf(word) : -1;
  if (whole >= 0) {
    ids.push_back(whole);
  } else {
    Begin(word, ids);
    if (ids.size() <= kFew) {
      MergeFew(ids);
    } else {
      MergeMany(ids);
    }
  }
  out.insert(out.end(), ids.begin(), ids.end());
  if (word.size() > kWordBytesMax) return;
  if (remembered_.size() >= kRememberedMax) remembered_.clear();
  remembered_.emplace(std::string(word), std::move(ids));
}

}  // namespace skerry
