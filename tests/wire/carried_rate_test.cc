#include "wire/transport/carried_rate.h"

#include <catch2/catch.hpp>

using namespace skerry;

namespace {

constexpr double kLine = 12.5e6;  // bytes/s
constexpr int64_t kChunk = 50'000;

// Far clocks begin anywhere.
Instant At(double seconds) {
  return Instant() + Duration::Seconds(1000 + seconds);
}

// What comes at the line's rate from `begin` on, a reading a chunk.
int64_t Flows(CarriedRate& carried, double begin, int64_t from, int chunks) {
  for (int i = 1; i <= chunks; ++i) {
    const auto bytes = static_cast<double>(i * kChunk);
    carried.OnDelivered(from + i * kChunk, At(begin + bytes / kLine));
  }
  return from + chunks * kChunk;
}

}  // namespace

TEST_CASE("CarriedRate: of a full line its rate", "[wire]") {
  CarriedRate carried;
  carried.OnDelivered(7, At(0));
  Flows(carried, 0, 7, 100);
  CHECK(carried.best() == Approx(kLine).epsilon(0.001));
}

TEST_CASE("CarriedRate: windows that open, and pauses of a round trip, are not the line's",
          "[wire]") {
  CarriedRate carried;
  int64_t bytes = 0;
  double at = 0;
  // Bursts of 1, 2, 4 … chunks, a round trip of 200 ms apart.
  for (int chunks = 1; chunks <= 32; chunks *= 2, at += 0.2)
    bytes = Flows(carried, at, bytes, chunks);
  CHECK(carried.best() == Approx(kLine).epsilon(0.05));
}

TEST_CASE("CarriedRate: what waited for a receiver that was busy is not the line's", "[wire]") {
  CarriedRate carried;
  const int64_t bytes = Flows(carried, 0, 0, 40);
  // It stood still for 40 ms; ten chunks come at once, then others as ever.
  const double begin = 40 * kChunk / kLine;
  for (int i = 1; i <= 10; ++i)
    carried.OnDelivered(bytes + i * kChunk, At(begin + 0.04 + 0.0002 * i));
  Flows(carried, begin + 0.042, bytes + 10 * kChunk, 40);
  CHECK(carried.best() == Approx(kLine).epsilon(0.05));
}

TEST_CASE("CarriedRate: too little, or what goes back, says nothing", "[wire]") {
  CarriedRate carried;
  Flows(carried, 0, 0, 4);
  CHECK(carried.best() == 0);
  carried.OnDelivered(1, At(2));
  carried.OnDelivered(1 << 30, At(0));
  CHECK(carried.best() == 0);
}

TEST_CASE("CarriedRate: traffic is no rate across a pause, and old rates are forgotten", "[wire]") {
  CarriedRate carried;
  const int64_t bytes = Flows(carried, 0, 0, 50);
  carried.OnIdle();
  // A tenth of the line.
  for (int i = 1; i <= 200; ++i) {
    carried.OnDelivered(bytes + i * kChunk, At(100 + i * kChunk * 10 / kLine));
  }
  CHECK(carried.best() == Approx(kLine / 10).epsilon(0.01));
}
