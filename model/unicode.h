// What tokenizers need of Unicode: UTF-8, three classes of characters (of version 16), and
// normalisation form C (Unicode Standard Annex 15; of version 9, as the package `tokenizers` has
// it). Tables: tools/unicode_tables.py.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace skerry {

struct CodePoint {
  uint32_t value = 0;
  uint32_t bytes = 0;  // of its UTF-8
};

// The character that begins at `at` < text.size(). The text is valid UTF-8; what is not is taken
// byte by byte as Latin-1, so that any bytes are read to their end.
CodePoint CodePointAt(std::string_view text, size_t at);
void AppendUtf8(uint32_t code_point, std::string& out);

bool IsLetter(uint32_t code_point);  // general category L
bool IsNumber(uint32_t code_point);  // general category N
bool IsSpace(uint32_t code_point);   // White_Space

std::string ToNfc(std::string_view text);

}  // namespace skerry
