#include "common/terminal.h"

#include <catch2/catch.hpp>

namespace skerry {
namespace {

using Lines = std::vector<std::string>;

TEST_CASE("A line that is wider than the terminal goes on, whole, in the next", "[common]") {
  CHECK(WrappedTo("", 20) == Lines{""});
  CHECK(WrappedTo("twenty characters, so", 21) == Lines{"twenty characters, so"});
  CHECK(WrappedTo("step 1/2  loss 3.14  nodes 8", 20) ==
        Lines{"step 1/2  loss 3.14", "    nodes 8"});
  CHECK(WrappedTo("  node " + std::string(20, 'x'), 10) ==
        Lines{"  node", "    xxxxxx", "    xxxxxx", "    xxxxxx", "    xx"});
  // Characters, not bytes; a terminal of no width is one all the same.
  CHECK(WrappedTo("δ und τ δ und τ", 15) == Lines{"δ und τ δ und τ"});
  CHECK(WrappedTo("δδδδδδδδδδδδ", 0).size() == 2);
  CHECK(WrappedTo("word" + std::string(90, ' '), 20) == Lines{"word"});
}

TEST_CASE("What is cut off says so", "[common]") {
  CHECK(CutTo("日本語", 3) == "日本語");
  CHECK(CutTo("日本語の", 3) == "日本…");
  CHECK(CutTo("x", 0) == "…");
}

}  // namespace
}  // namespace skerry
