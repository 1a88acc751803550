// Tokens that are found in a text as they are, before anything else is done to it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace skerry {

struct AddedToken {
  std::string text;  // not empty
  int32_t id = 0;
  bool strips_left = false, strips_right = false;  // spaces beside it belong to it
  bool single_word = false;                        // not beside a letter, a number or '_'
};

struct TextPart {
  std::string_view text;
  int32_t token = -1;  // −1: text between tokens
};

class AddedTokens {
 public:
  void Add(AddedToken token);
  // The parts of a text, none of them empty; leftmost token first, of two the longer.
  std::vector<TextPart> Split(std::string_view text) const;

 private:
  const AddedToken* At(std::string_view text, size_t at) const;
  std::vector<AddedToken> by_first_[256];  // byte; the longest first
  bool is_first_[256] = {};
  bool is_empty_ = true;
};

}  // namespace skerry
