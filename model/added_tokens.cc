#include "model/added_tokens.h"

#include <algorithm>

#include "model/unicode.h"

namespace skerry {
namespace {

bool IsOfWord(uint32_t point) {
  return point == '_' || IsLetter(point) || IsNumber(point);
}

// Where the character that ends at `at` begins.
size_t Before(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80);
  return at;
}

bool StandsAlone(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && IsOfWord(CodePointAt(text, Before(text, begin)).value)) return false;
  return end >= text.size() || !IsOfWord(CodePointAt(text, end).value);
}

}  // namespace

void AddedTokens::Add(AddedToken token) {
  const auto first = static_cast<uint8_t>(token.text[0]);
  auto& list = by_first_[first];
  const auto at = std::find_if(list.begin(), list.end(), [&](const AddedToken& other) {
    return other.text.size() < token.text.size();
  });
  list.insert(at, std::move(token));
  is_first_[first] = true;
  is_empty_ = false;
}

const AddedToken* AddedTokens::At(std::string_view text, size_t at) const {
  for (const AddedToken& token : by_first_[static_cast<uint8_t>(text[at])]) {
    if (text.substr(at).starts_with(token.text)) return &token;
  }
  return nullptr;
}

std::vector<TextPart> AddedTokens::Split(std::string_view text) const {
  std::vector<TextPart> parts;
  const auto put = [&](size_t begin, size_t end, int32_t token) {
    if (end > begin) parts.push_back({text.substr(begin, end - begin), token});
  };
  size_t done = 0;
  for (size_t at = 0; !is_empty_ && at < text.size();) {
    const AddedToken* token = is_first_[static_cast<uint8_t>(text[at])] ? At(text, at) : nullptr;
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + token->text.size();
    at = end;
    if (token->single_word && !StandsAlone(text, begin, end)) continue;
    while (token->strips_left && begin > done) {
      const size_t before = Before(text, begin);
      if (!IsSpace(CodePointAt(text, before).value)) break;
      begin = before;
    }
    while (token->strips_right && end < text.size()) {
      const CodePoint next = CodePointAt(text, end);
      if (!IsSpace(next.value)) break;
      end += next.bytes;
    }
    put(done, begin, -1);
    put(begin, end, token->id);
    done = at = end;
  }
  put(done, text.size(), -1);
  return parts;
}

}  // namespace skerry
