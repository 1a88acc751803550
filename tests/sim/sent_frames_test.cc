#include "sim/sent_frames.h"

#include <catch2/catch.hpp>
#include <set>

#include "common/rng.h"

using namespace skerry;

TEST_CASE("SentFrames: a frame goes into a connection once, and once more when it was lost") {
  SentFrames sent;
  CHECK(sent.Add(5));
  CHECK_FALSE(sent.Add(5));
  sent.Remove(5);
  CHECK(sent.Add(5));
  sent.Clear();
  CHECK(sent.Add(5));
}

TEST_CASE("SentFrames: agrees with a plain set, whatever comes in whatever order") {
  Rng rng(GENERATE(1, 2, 3), "sent frames");
  SentFrames sent;
  std::set<uint64_t> plain;
  for (int i = 0; i < 5000; ++i) {
    const uint64_t sequence = 1 + rng.Below(60);
    if (rng.Below(500) == 0) {
      sent.Clear();
      plain.clear();
    } else if (rng.Below(3) == 0) {
      sent.Remove(sequence);
      plain.erase(sequence);
    } else {
      REQUIRE(sent.Add(sequence) == plain.insert(sequence).second);
    }
  }
}
