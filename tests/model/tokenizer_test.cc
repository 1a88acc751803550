#include "model/tokenizer.h"

#include <catch2/catch.hpp>

namespace skerry {

TEST_CASE("ByteTokenizer: tokens are bytes and back", "[model]") {
  const std::string text = "a\n\xc3\xa9\xff";

  const std::vector<int32_t> tokens = ByteTokenizer::Encode(text);

  CHECK(tokens == std::vector<int32_t>{97, 10, 0xc3, 0xa9, 0xff});
  CHECK(ByteTokenizer::Decode(tokens) == text);
  CHECK(ByteTokenizer::Decode(std::vector<int32_t>{97, 256, -1}) == "a??");
}

TEST_CASE("ByteTokenizer: the exported vocabulary numbers bytes as their values", "[model]") {
  const std::string json = ByteTokenizer::TokenizerJson();

  CHECK(json.find("\"A\": 65") != std::string::npos);
  CHECK(json.find("\"Ġ\": 32") != std::string::npos);  // a space, in GPT-2's byte alphabet
  CHECK(json.find("\"Ċ\": 10") != std::string::npos);  // a newline
  CHECK(json.find("\"ÿ\": 255") != std::string::npos);
}

}  // namespace skerry
