#include "node/say.h"

#include <catch2/catch.hpp>

using namespace skerry;

TEST_CASE("What happened is told to people without brackets, in the order it was said", "[node]") {
  CHECK(EventText("training", R"("stage":0,"layers":8,"why":"a free place","donors":{})") ==
        "training: stage 0, layers 8, why a free place");
  CHECK(EventText("state", R"({"mb":40.1,"donors":{"57a9dbb2":40.6}})") ==
        R"(state: mb 40.1, donors {"57a9dbb2":40.6})");
  CHECK(EventText("finished", "") == "finished");
  CHECK(EventText("odd", "no json") == "odd no json");
}
