#include "pipeline/plan/speed_watch.h"

#include <catch2/catch.hpp>

namespace skerry {
namespace {

// Heartbeats of a node that takes `seconds` for a backward pass.
struct Beats {
  SpeedWatch watch;
  int32_t stage = 1;
  double backward_s = 5;
  int64_t backwards = 70;

  int Window(double seconds) {
    int changes = 0;
    for (int64_t i = 0; i < SpeedWatch::kWindowPasses; ++i) {
      backward_s += seconds;
      changes += watch.OnBeat(stage, backward_s, ++backwards) ? 1 : 0;
    }
    return changes;
  }
};

Beats Warm() {
  Beats beats;
  beats.watch.OnBeat(beats.stage, beats.backward_s, beats.backwards);
  beats.Window(0.5);
  beats.Window(0.5);
  return beats;
}

TEST_CASE("Speed watch: a device four times as slow is found after two windows", "[plan]") {
  Beats beats = Warm();
  CHECK(beats.watch.class_slower() == 0);
  CHECK(beats.Window(2) == 0);
  CHECK(beats.Window(2) == 1);
  CHECK(beats.watch.class_slower() == 3);  // 1.5³ = 3.4
  CHECK(beats.watch.factor() == Approx(1 / 3.375));
  CHECK(beats.Window(2) == 0);
  CHECK(beats.Window(0.5) == 0);
  CHECK(beats.Window(0.5) == 1);
  CHECK(beats.watch.class_slower() == 0);
}

TEST_CASE("Speed watch: noise, and a single slow window, change nothing", "[plan]") {
  Beats beats = Warm();
  for (int i = 0; i < 20; ++i) CHECK(beats.Window(i % 2 == 0 ? 0.45 : 0.53) == 0);
  CHECK(beats.Window(5) == 0);
  CHECK(beats.Window(0.5) == 0);
  CHECK(beats.Window(5) == 0);
  CHECK(beats.watch.class_slower() == 0);
}

TEST_CASE("Speed watch: of two unlike windows the milder counts", "[plan]") {
  Beats beats = Warm();
  CHECK(beats.Window(50) == 0);
  CHECK(beats.Window(0.75) == 1);
  CHECK(beats.watch.class_slower() == 1);
}

TEST_CASE("Speed watch: another slot or another process begins anew", "[plan]") {
  Beats beats = Warm();
  beats.Window(2);
  beats.Window(2);
  REQUIRE(beats.watch.class_slower() == 3);
  beats.stage = 0;
  CHECK(beats.Window(3) == 1);
  CHECK(beats.watch.class_slower() == 0);
  beats.Window(3);
  beats.backwards = 0;
  beats.backward_s = 0;
  CHECK(beats.Window(1) == 0);
  CHECK(beats.Window(1) == 0);
  CHECK(beats.watch.class_slower() == 0);
}

}  // namespace
}  // namespace skerry
