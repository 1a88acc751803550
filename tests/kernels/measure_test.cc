#include "kernels/measure.h"

#include <catch2/catch.hpp>

#include "bench/distant_device.h"

namespace skerry {

TEST_CASE("Measure: a fast device's rate is its products', not of waiting for them", "[kernels]") {
  const double rate = GENERATE(2e4, 8e5);
  DistantDevice device(rate);
  const double measured = MeasureGflops(device);
  CHECK(measured > 0.9 * rate);
  CHECK(measured <= 1.001 * rate);
}

}  // namespace skerry
