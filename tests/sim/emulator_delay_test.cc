// What the in-process shaper's lines are shortened by.
#include "sim/emulator_delay.h"

#include <catch2/catch.hpp>

using namespace skerry;

TEST_CASE("EmulatorDelay: of this machine it is more than nothing and less than its patience") {
  const auto own = MeasureEmulatorDelay();
  REQUIRE(own.ok());
  CHECK(*own > Duration());
  CHECK(*own < Duration::Seconds(1));
}

TEST_CASE(
    "EmulatorDelay: lines are shorter by it, both ways together, and never less than nothing") {
  WanShape shape;
  shape.regions = {"a", "b"};
  shape.links[{"a", "b"}] = {Duration::Millis(40), 5e6};
  shape.links[{"b", "a"}] = {Duration::Micros(100), 6e6};
  shape.same_region = {Duration::Millis(1), 125e6};
  shape.up_bytes_per_s = 7;

  const WanShape less = Without(shape, Duration::Micros(400));

  CHECK(less.links.at({"a", "b"}) == LinkShape{Duration::Micros(39'800), 5e6});
  CHECK(less.links.at({"b", "a"}) == LinkShape{Duration(), 6e6});
  CHECK(less.same_region == LinkShape{Duration::Micros(800), 125e6});
  CHECK(less.regions == shape.regions);
  CHECK(less.up_bytes_per_s == 7);
  CHECK(Without(shape, Duration()) == shape);
}
