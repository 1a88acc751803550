// Texts and numbers from nodes, before they are kept or shown.

#include "coordinator/border.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

using namespace skerry;

TEST_CASE("Clean text keeps letters of every language and nothing a terminal would obey",
          "[coordinator]") {
  CHECK(CleanText("Zürich 東京 🌊") == "Zürich 東京 🌊");
  CHECK(CleanText("a\x1b[2Jb\n\x7f") == "a?[2Jb??");
  CHECK(CleanText("\xc2\x9b"
                  "31m") == "?31m");  // C1 control sequence introducer
}

TEST_CASE("What is not UTF-8 becomes question marks", "[coordinator]") {
  CHECK(CleanText("\xff\xfe") == "??");
  CHECK(CleanText("\xc0\xaf") == "??");            // overlong
  CHECK(CleanText("\xed\xa0\x80") == "???");       // surrogate
  CHECK(CleanText("\xf4\x90\x80\x80") == "????");  // beyond U+10FFFF
  CHECK(CleanText("ab\xe2\x82") == "ab??");        // cut off
}

TEST_CASE("Long text is cut between characters", "[coordinator]") {
  CHECK(CleanText(std::string(1000, 'x')).size() == kShortTextMax);
  CHECK(CleanText("aéé", 4) == "aé");
}

TEST_CASE("Numbers of no meaning become zero, or void the message", "[coordinator]") {
  const double bad = GENERATE(NAN, INFINITY, -INFINITY, -1.0);
  Hello hello;
  hello.device.gflops = bad;
  CHECK(CleanHello(hello).device.gflops == 0);
  CHECK_FALSE(IsSane(LinkReading{NodeId{}, bad, 1e6}));
  CHECK_FALSE(IsSane(LinkReading{NodeId{}, 0.1, bad}));
  CHECK_FALSE(IsSane(RoundApplied{0, 0, {}, bad, 0}));
  CHECK_FALSE(IsSane(RoundApplied{0, 0, {}, 0, bad}));
  Heartbeat beat;
  beat.bytes_sent = std::numeric_limits<int64_t>::min();
  beat.busy_s = beat.backward_s = bad;
  CHECK(CleanHeartbeat(beat) == Heartbeat{});
}

TEST_CASE("Sizes of activations are in range, each named once, or the message is void",
          "[coordinator]") {
  RunConfig config;
  config.steps = 100;
  config.pipeline.microbatches_per_step = 4;
  const BoundarySizes good{96, {{TestNodeId(1), true, false, 256, -3}}};
  CHECK(IsSane(good, config));
  CHECK(IsSane(BoundarySizes{}, config));
  BoundarySizes bad = good;
  BoundarySide& side = bad.sides.front();
  SECTION("numbers") {
    side.log2_rms = GENERATE(NAN, INFINITY, -INFINITY, -64.5f, 40.5f);
  }
  SECTION("counts") {
    side.count = GENERATE(0, -1, 257, std::numeric_limits<int32_t>::max());
  }
  SECTION("steps") {
    bad.first_step = GENERATE(as<int64_t>(), -8, 1, 104, std::numeric_limits<int64_t>::max());
  }
  SECTION("one named twice") {
    bad.sides.push_back(good.sides.front());
  }
  SECTION("too many") {
    for (uint32_t i = 2; i < 2 + kBoundarySidesMax; ++i) {
      bad.sides.push_back({TestNodeId(i), true, false, 1, 0});
    }
  }
  CHECK_FALSE(IsSane(bad, config));
}

TEST_CASE("Event fields are JSON whatever is in them", "[coordinator]") {
  const std::string fields = EventFields({{"why", "\"}\xff{"}, {"n", 1}});
  const auto parsed = nlohmann::json::parse("{" + fields + "}");
  CHECK(parsed["n"] == 1);
  CHECK(EventFields(nlohmann::json::object()).empty());
}
