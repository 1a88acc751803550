#include "pipeline/exec/work_distance.h"

#include <catch2/catch.hpp>
#include <limits>
#include <utility>
#include <vector>

#include "plain_stage.h"

using namespace skerry;
using skerry::testing::PayloadOf;
using skerry::testing::PlainStage;

namespace {

// Adds one to every value, forward and backward.
class AddingStage final : public PlainStage {
 public:
  using PlainStage::PlainStage;
  absl::StatusOr<Recomputed> Recompute(const Payload& in, const Payload& d_out) override {
    return Recomputed{Forward(0, 0, in).values, Backward(0, 0, d_out).values};
  }
};

using Values = std::vector<float>;

WorkDistance Measured(const Values& output, const Values& descended) {
  AddingStage stage(2);
  const WorkParts parts = {PassInput{PayloadOf({10, 20})}, PassInput{PayloadOf(output)},
                           PassInput{PayloadOf({3, 4})}, PassInput{PayloadOf(descended)}};
  const auto distance = MeasureWork(stage, parts);
  REQUIRE(distance.ok());
  return *distance;
}

}  // namespace

TEST_CASE("Work's distance is a share of what the stage adds", "[pipeline][exec]") {
  const WorkDistance same = Measured({11, 21}, {4, 5});
  CHECK(same.forward == 0);
  CHECK(same.backward == 0);
  const WorkDistance passed_on = Measured({10, 20}, {3, 4});
  CHECK(passed_on.forward == 1);
  CHECK(passed_on.backward == 1);
  const WorkDistance opposite = Measured({9, 19}, {2, 3});
  CHECK(opposite.forward == 2);
  CHECK(opposite.backward == 2);
  const WorkDistance half = Measured({11, 21}, {4, 6});
  CHECK(half.forward == 0);
  CHECK(half.backward == Approx(std::sqrt(0.5)));
}

TEST_CASE("Work's distance: what is not finite is as far as can be", "[pipeline][exec]") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(Measured({11, kInfinity}, {4, 5}).forward == kWorkDistanceMax);
  CHECK(Measured({11, std::numeric_limits<float>::quiet_NaN()}, {4, 5}).forward ==
        kWorkDistanceMax);
  CHECK(Measured({1e30f, 21}, {4, 5}).forward == kWorkDistanceMax);
}

TEST_CASE("Work's distance: what cannot be computed again is an error", "[pipeline][exec]") {
  PlainStage stage(2);
  const WorkParts parts = {PassInput{PayloadOf({1, 2})}, PassInput{PayloadOf({1, 2})},
                           PassInput{PayloadOf({1, 2})}, PassInput{PayloadOf({1, 2})}};
  CHECK_FALSE(MeasureWork(stage, parts).ok());
}
