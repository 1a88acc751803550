#include "model/stage_state.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace skerry;

namespace {

StageState Sample(size_t moments = 3) {
  StageState state;
  state.version = 5;
  state.inner_steps = 40;
  state.base = {1, -2, 0.5f};
  state.momentum = {0, 1e-3f, -4};
  state.first_moment.assign(moments, 0.25f);
  state.second_moment.assign(moments, 0.125f);
  return state;
}

}  // namespace

TEST_CASE("StageState: what was encoded is decoded, with and without moments") {
  const StageState state = Sample(GENERATE(size_t{0}, size_t{3}));
  const auto decoded = DecodeState(EncodeState(state), 3);
  REQUIRE(decoded.ok());
  CHECK(*decoded == state);
}

TEST_CASE("StageState: one bit changed anywhere, cut short, or of another stage: data loss") {
  const Bytes bytes = EncodeState(Sample());
  for (size_t i = 0; i < bytes.size(); ++i) {
    Bytes damaged = bytes;
    damaged[i] ^= 4;
    CHECK(absl::IsDataLoss(DecodeState(damaged, 3).status()));
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<int64_t>(i));
    CHECK(absl::IsDataLoss(DecodeState(cut, 3).status()));
  }
  CHECK(absl::IsDataLoss(DecodeState(bytes, 4).status()));
  StageState diverged = Sample();
  diverged.momentum[1] = NAN;
  CHECK(absl::IsDataLoss(DecodeState(EncodeState(diverged), 3).status()));
}
