#include "model/text_source.h"

#include <cstring>

#include "common/status.h"

namespace skerry {
namespace {

uint8_t At(const std::string& bytes, size_t i) {
  return static_cast<uint8_t>(bytes[i]);
}

struct Sequence {
  size_t length = 0;  // 0: its first byte cannot begin a character
  uint8_t second_min = 0x80, second_max = 0xbf;
};

// Table 3-7 of the Unicode standard: no overlong forms, no surrogates, nothing past U+10FFFF.
Sequence SequenceOf(uint8_t first) {
  if (first < 0x80) return {1};
  if (first >= 0xc2 && first <= 0xdf) return {2};
  if (first == 0xe0) return {3, 0xa0, 0xbf};
  if (first == 0xed) return {3, 0x80, 0x9f};
  if (first >= 0xe1 && first <= 0xef) return {3};
  if (first == 0xf0) return {4, 0x90, 0xbf};
  if (first == 0xf4) return {4, 0x80, 0x8f};
  if (first >= 0xf1 && first <= 0xf3) return {4};
  return {};
}

// How many of the bytes from `at` on agree with `sequence`; all of them if it is `sequence.length`.
size_t Agreeing(const std::string& bytes, size_t at, const Sequence& sequence) {
  size_t agreeing = 1;
  while (agreeing < sequence.length && at + agreeing < bytes.size()) {
    const uint8_t byte = At(bytes, at + agreeing);
    const uint8_t min = agreeing == 1 ? sequence.second_min : uint8_t{0x80};
    const uint8_t max = agreeing == 1 ? sequence.second_max : uint8_t{0xbf};
    if (byte < min || byte > max) break;
    ++agreeing;
  }
  return agreeing;
}

// How many bytes of ASCII there are from `at` on, in steps of eight.
size_t PlainBytes(const std::string& bytes, size_t at) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  size_t end = at;
  for (uint64_t eight; end + sizeof eight <= bytes.size(); end += sizeof eight) {
    std::memcpy(&eight, bytes.data() + end, sizeof eight);
    if ((eight & kHighBits) != 0) break;
  }
  return end - at;
}

void AppendLatin1(uint8_t byte, std::string& out) {
  out += static_cast<char>(0xc0 | byte >> 6);
  out += static_cast<char>(0x80 | (byte & 0x3f));
}

}  // namespace

void Utf8Normalizer::Drain(bool is_end, std::string& out) {
  size_t at = 0;
  while (at < pending_.size()) {
    if (const size_t plain = PlainBytes(pending_, at); plain > 0) {
      out.append(pending_, at, plain);
      at += plain;
      continue;
    }
    const Sequence sequence = SequenceOf(At(pending_, at));
    const size_t agreeing = sequence.length == 0 ? 0 : Agreeing(pending_, at, sequence);
    const bool unfinished = agreeing < sequence.length && at + agreeing == pending_.size();
    if (unfinished && !is_end) break;
    if (sequence.length > 0 && agreeing == sequence.length) {
      out.append(pending_, at, sequence.length);
      at += sequence.length;
    } else {
      AppendLatin1(At(pending_, at++), out);
    }
  }
  pending_.erase(0, at);
}

void Utf8Normalizer::Feed(std::string_view bytes, std::string& out) {
  pending_.append(bytes);
  Drain(false, out);
}

void Utf8Normalizer::Finish(std::string& out) {
  Drain(true, out);
}

absl::StatusOr<std::unique_ptr<TextSource>> TextSource::Open(const std::string& path) {
  SKERRY_ASSIGN_OR_RETURN(UnpackedFile file, UnpackedFile::Open(path));
  return std::unique_ptr<TextSource>(new TextSource(std::move(file)));
}

absl::StatusOr<std::string> TextSource::Next() {
  std::string text;
  while (text.empty() && !finished_) {
    SKERRY_ASSIGN_OR_RETURN(const std::string_view bytes, file_.Next());
    finished_ = bytes.empty();
    if (finished_) {
      normalizer_.Finish(text);
    } else {
      normalizer_.Feed(bytes, text);
    }
  }
  return text;
}

}  // namespace skerry
