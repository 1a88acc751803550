#include "model/lr_schedule.h"

#include <catch2/catch.hpp>

namespace skerry {
namespace {

InnerConfig Schedule(int64_t warmup) {
  InnerConfig config;
  config.learning_rate = 1.0f;
  config.min_learning_rate = 0.2f;
  config.warmup_steps = warmup;
  return config;
}

}  // namespace

TEST_CASE("LearningRate: rises over the warmup and falls by a half cosine", "[model]") {
  const InnerConfig config =
      Schedule(4);  // of 12 steps: the peak at 3, the middle at 7, the end 11

  CHECK(LearningRate(config, 0, 12) == Approx(0.25));
  CHECK(LearningRate(config, 1, 12) == Approx(0.5));
  CHECK(LearningRate(config, 3, 12) == Approx(1.0));
  CHECK(LearningRate(config, 5, 12) == Approx(0.6 + 0.4 * 0.70710678));
  CHECK(LearningRate(config, 7, 12) == Approx(0.6));
  CHECK(LearningRate(config, 11, 12) == Approx(0.2));
  CHECK(LearningRate(config, 1000, 12) == Approx(0.2));
}

TEST_CASE("LearningRate: works without warmup and for short runs", "[model]") {
  CHECK(LearningRate(Schedule(0), 0, 10) == Approx(1.0));
  CHECK(LearningRate(Schedule(0), 9, 10) == Approx(0.2));
  CHECK(LearningRate(Schedule(20), 5, 10) == Approx(0.3));  // never leaves the warmup
  CHECK(LearningRate(Schedule(1), 0, 1) == Approx(1.0));
  CHECK(LearningRate(Schedule(0), 0, 1) == Approx(0.2));
}

}  // namespace skerry
