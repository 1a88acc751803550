// The byte tokenizer: token = byte, 256 tokens, no special ones. Any text in any language, nothing
// to train, and an exported model needs no foreign vocabulary.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skerry {

// The printable stand-in of each byte in byte-level BPE files: printable Latin-1 as itself, the
// others numbered from U+0100 (GPT-2's table).
std::vector<std::string> ByteCharacters();
// The bytes that such a text stands for; nullopt: it stands for none.
std::optional<std::string> BytesOfCharacters(const std::string& text);

class ByteTokenizer {
 public:
  static constexpr int32_t kVocab = 256;

  static std::vector<int32_t> Encode(std::string_view text);
  // Tokens outside [0, 256) become '?'. The text may end inside a UTF-8 character.
  static std::string Decode(std::span<const int32_t> tokens);

  // The same tokenizer for the Hugging Face libraries: byte-level BPE with 256 characters and no
  // merges.
  static std::string TokenizerJson();
  static std::string TokenizerConfigJson(int32_t context);
};

}  // namespace skerry
