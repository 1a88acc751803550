#include "model/pre_tokenizer.h"

#include <array>

#include "model/unicode.h"

namespace skerry {
namespace {

constexpr const char* kGpt2Text =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3Text =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Text = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                                   R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

enum class Kind : uint8_t { kEnd, kLetter, kNumber, kSpace, kOther };

Kind KindOf(uint32_t v) {
  return IsLetter(v)   ? Kind::kLetter
         : IsNumber(v) ? Kind::kNumber
         : IsSpace(v)  ? Kind::kSpace
                       : Kind::kOther;
}

// Nearly all of most texts.
const std::array<Kind, 0x80> kAscii = [] {
  std::array<Kind, 0x80> kinds;
  for (uint32_t v = 0; v < kinds.size(); ++v) kinds[v] = KindOf(v);
  return kinds;
}();

// A place in the text, and what stands there.
struct Cursor {
  std::string_view text;
  size_t at = 0;
  CodePoint point = {};
  Kind kind = Kind::kEnd;

  Cursor(std::string_view of, size_t from) : text(of), at(from) { Look(); }
  void Next() {
    at += point.bytes;
    Look();
  }
  bool IsLineEnd() const {
    return kind == Kind::kSpace && (point.value == '\n' || point.value == '\r');
  }

 private:
  void Look() {
    point = {};
    kind = Kind::kEnd;
    if (at >= text.size()) return;
    const auto byte = static_cast<uint8_t>(text[at]);
    if (byte < kAscii.size()) {
      point = {byte, 1};
      kind = kAscii[byte];
    } else {
      point = CodePointAt(text, at);
      kind = KindOf(point.value);
    }
  }
};

constexpr uint32_t kLongS = 0x17f;  // folds to s

// 's|'t|'re|'ve|'m|'ll|'d: its end, or `at`.
size_t Contraction(std::string_view text, size_t at, bool any_case) {
  if (text[at] != '\'' || at + 1 >= text.size()) return at;
  const auto fold = [&](size_t i) -> std::pair<char, size_t> {
    if (i >= text.size()) return {'\0', 0};
    const CodePoint point = CodePointAt(text, i);
    if (any_case && point.value == kLongS) return {'s', point.bytes};
    if (point.value >= 0x80) return {'\0', point.bytes};
    const char c = text[i];
    return {any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c, 1};
  };
  const auto [first, first_bytes] = fold(at + 1);
  const size_t after = at + 1 + first_bytes;
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return after;
  const auto [second, second_bytes] = fold(after);
  const bool two = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                   (first == 'l' && second == 'l');
  return two ? after + second_bytes : at;
}

size_t EndOfRun(Cursor cursor, Kind kind) {
  while (cursor.kind == kind) cursor.Next();
  return cursor.at;
}

// \s+(?!\S)|\s+, and before them \s*[\r\n]+ where `lines`.
size_t EndOfSpace(Cursor cursor, bool lines) {
  size_t last_begin = cursor.at, after_line = cursor.at;
  const size_t begin = cursor.at;
  while (cursor.kind == Kind::kSpace) {
    const bool is_line_end = cursor.IsLineEnd();
    last_begin = cursor.at;
    cursor.Next();
    if (is_line_end) after_line = cursor.at;
  }
  if (lines && after_line > begin) return after_line;
  return cursor.kind == Kind::kEnd || last_begin == begin ? cursor.at : last_begin;
}

size_t Gpt2Word(std::string_view text, size_t at) {
  const size_t contraction = Contraction(text, at, false);
  if (contraction > at) return contraction;
  Cursor cursor(text, at);
  if (cursor.kind == Kind::kSpace && cursor.point.value == ' ') {
    Cursor after = cursor;
    after.Next();
    if (after.kind != Kind::kSpace && after.kind != Kind::kEnd) cursor = after;
  }
  return cursor.kind == Kind::kSpace ? EndOfSpace(cursor, false) : EndOfRun(cursor, cursor.kind);
}

size_t Llama3Word(std::string_view text, size_t at, int numbers_max) {
  const size_t contraction = Contraction(text, at, true);
  if (contraction > at) return contraction;
  Cursor cursor(text, at);
  if (cursor.kind == Kind::kLetter) return EndOfRun(cursor, Kind::kLetter);
  if (cursor.kind == Kind::kNumber) {
    for (int i = 0; i < numbers_max && cursor.kind == Kind::kNumber; ++i) cursor.Next();
    return cursor.at;
  }
  Cursor after = cursor;
  after.Next();
  if (after.kind == Kind::kLetter && !cursor.IsLineEnd()) return EndOfRun(after, Kind::kLetter);
  const bool blank = cursor.kind == Kind::kSpace && cursor.point.value == ' ';
  if (cursor.kind == Kind::kOther || (blank && after.kind == Kind::kOther)) {
    Cursor end(text, EndOfRun(blank ? after : cursor, Kind::kOther));
    while (end.IsLineEnd()) end.Next();
    return end.at;
  }
  return EndOfSpace(cursor, true);
}

size_t DigitsWord(std::string_view text, size_t at, bool runs) {
  Cursor cursor(text, at);
  if (cursor.kind == Kind::kNumber && !runs) return at + cursor.point.bytes;
  const bool number = cursor.kind == Kind::kNumber;
  while (cursor.kind != Kind::kEnd && (cursor.kind == Kind::kNumber) == number) cursor.Next();
  return cursor.at;
}

}  // namespace

std::optional<WordPattern> PatternOf(const std::string& text) {
  if (text == kGpt2Text) return WordPattern::kGpt2;
  if (text == kLlama3Text) return WordPattern::kLlama3;
  if (text == kQwen2Text) return WordPattern::kQwen2;
  return std::nullopt;
}

void CutWords(WordPattern pattern, std::string_view text, std::vector<std::string_view>& words) {
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    switch (pattern) {
      case WordPattern::kGpt2:
        end = Gpt2Word(text, at);
        break;
      case WordPattern::kLlama3:
        end = Llama3Word(text, at, 3);
        break;
      case WordPattern::kQwen2:
        end = Llama3Word(text, at, 1);
        break;
      case WordPattern::kDigits:
      case WordPattern::kDigitRuns:
        end = DigitsWord(text, at, pattern == WordPattern::kDigitRuns);
        break;
    }
    words.push_back(text.substr(at, end - at));
    at = end;
  }
}

}  // namespace skerry
